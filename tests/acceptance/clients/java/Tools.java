import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's own command line tools one after the other in one process, which starts only once.
 *
 * Each line read is a class and its words, parted by tabs; a last word that begins with `<` is what the tool
 * reads, its lines parted by `\\n`. What the tool prints comes back, then a line `exit N`.
 */
public class Tools {
    private static class Exited extends RuntimeException {}

    /** How the tool wished to end; some catch their own end and wish for another. */
    private static Integer ended;

    public static void main(String[] ignored) throws IOException {
        Exit.setExitProcedure((status, message) -> {
            if (ended == null) {
                ended = status;
                System.setOut(new PrintStream(OutputStream.nullOutputStream()));
                System.setErr(System.out);
            }
            throw new Exited();
        });
        var out = System.out;
        var asked = new BufferedReader(new InputStreamReader(System.in));
        for (var line = asked.readLine(); line != null; line = asked.readLine()) {
            var words = line.split("\t");
            var said = new ByteArrayOutputStream();
            var stream = new PrintStream(said, true);
            System.setOut(stream);
            System.setErr(stream);
            ended = null;
            int end = words.length;
            var fed = words[end - 1].startsWith("<") ? words[--end].substring(1) : "";
            System.setIn(new ByteArrayInputStream(fed.replace("\\n", "\n").getBytes(StandardCharsets.UTF_8)));
            boolean succeeded = run(words[0], Arrays.copyOfRange(words, 1, end));
            out.print(said);
            out.println("\nexit " + (ended != null ? ended : succeeded ? 0 : 1));
            out.flush();
        }
    }

    private static boolean run(String tool, String[] words) {
        try {
            if (tool.equals("remove-members")) {
                removeMembers(words[0], words[1], List.of(words).subList(2, words.length));
            } else {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words);
            }
            return true;
        } catch (InvocationTargetException failed) {
            failed.getCause().printStackTrace();
        } catch (Exception failed) {
            failed.printStackTrace();
        }
        return false;
    }

    /** What the Streams reset tool does: remove these static members, or all members. */
    private static void removeMembers(String bootstrap, String group, List<String> instances) throws Exception {
        var named = instances.stream().map(MemberToRemove::new).toList();
        var options = named.isEmpty()
            ? new RemoveMembersFromConsumerGroupOptions()
            : new RemoveMembersFromConsumerGroupOptions(named);
        try (var admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            admin.removeMembersFromConsumerGroup(group, options).all().get();
        }
    }
}
