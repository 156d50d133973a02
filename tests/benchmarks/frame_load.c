/* This room sends prebuilt frames over many connections and looks at every answer; see frame_load.py.

   Called with HOST PORT FILE. The file holds, for each connection: its descriptor, or -1 to open it here, the
   bytes of its request, the bytes of the answer it must get, where in the request an offset stands that is
   higher each time, where in the answer eight bytes may be any, how many of its bytes are compared, where the
   correlation id stands in both, and how many decimal digits these numbers have; 0: they are Kafka's. Each line of
   standard input, SECONDS IN_FLIGHT RATE, is one window of work, told of in one line of JSON. With a rate (in
   all, a second) requests leave when they are due, and the time of an answer counts from there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT_MAX = 64, EVENTS = 512 };
enum { BUCKETS = 1000000, BUCKET_NS = 10000, PATIENCE_S = 30 };

struct connection {
    int fd;
    uint32_t request_bytes, answer_bytes, offset_count, any_count, compared_bytes;
    uint32_t number_at, answered_at, digits;
    uint8_t *request, *answer, *buffer;
    uint32_t *offsets_at, *any_at;
    uint64_t next_offset, asked_at[IN_FLIGHT_MAX], due;
    uint32_t asked, heard, filled;
};

static struct connection *connections;
static uint32_t count;
static uint32_t buckets[BUCKETS];
static uint64_t answers, until;
static uint8_t out[1 << 25];

static void fail(const char *what) {
    fprintf(stderr, "frame_load: %s (%s)\n", what, strerror(errno));
    exit(3);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + time.tv_nsec;
}

static void put(uint8_t *place, uint64_t number, int bytes) {
    while (bytes--) place[bytes] = number & 0xff, number >>= 8;
}

static uint32_t get(const uint8_t *place) {
    uint32_t number;
    memcpy(&number, place, 4);
    return ntohl(number);
}

/* Digits begin with a one, so that a number never has fewer of them. */
static void put_number(const struct connection *one, uint8_t *place, uint64_t number, int bytes) {
    if (!one->digits) {
        put(place, number, bytes);
        return;
    }
    for (uint32_t n = one->digits; --n; number /= 10) place[n] = '0' + number % 10;
    *place = '1';
}

static int is_number(const struct connection *one, const uint8_t *place, uint32_t number) {
    uint8_t wanted[32];
    put_number(one, wanted, number, 4);
    return !memcmp(place, wanted, one->digits ? one->digits : 4);
}

static void say(struct connection *one, uint32_t times, uint64_t since) {
    size_t size = 0;
    while (times--) {
        put_number(one, one->request + one->number_at, one->asked, 4);
        if (one->offset_count) one->next_offset++;
        for (uint32_t n = 0; n < one->offset_count; n++)
            put_number(one, one->request + one->offsets_at[n], one->next_offset, 8);
        one->asked_at[one->asked++ % IN_FLIGHT_MAX] = since;
        memcpy(out + size, one->request, one->request_bytes);
        size += one->request_bytes;
    }
    for (size_t sent = 0; sent < size;) {
        ssize_t part = send(one->fd, out + sent, size - sent, 0);
        if (part <= 0) fail("send");
        sent += part;
    }
}

static void refuse(const struct connection *one, const uint8_t *answer, uint32_t size) {
    fprintf(stderr, "frame_load: a wrong answer:");
    for (uint32_t n = 0; n < size && n < 200; n++) fprintf(stderr, " %02x", answer[n]);
    fprintf(stderr, "; expected:");
    for (uint32_t n = 0; n < one->answer_bytes && n < 200; n++) fprintf(stderr, " %02x", one->answer[n]);
    fprintf(stderr, "\n");
    exit(4);
}

/* How many answers were there. */
static uint32_t hear(struct connection *one, uint64_t *now) {
    ssize_t got = recv(one->fd, one->buffer + one->filled, one->answer_bytes * IN_FLIGHT_MAX - one->filled, 0);
    if (got <= 0) fail("no more answers");
    one->filled += got;
    *now = now_ns();
    uint32_t start = 0, found = 0;
    while (one->filled - start >= 8) {
        const uint8_t *answer = one->buffer + start;
        if (!one->digits && get(answer) + 4 != one->answer_bytes) refuse(one, answer, one->filled - start);
        if (one->filled - start < one->answer_bytes) break;
        for (uint32_t n = 0; n < one->any_count; n++) memcpy(one->answer + one->any_at[n], answer + one->any_at[n], 8);
        put_number(one, one->answer + one->answered_at, one->heard, 4);
        if (memcmp(answer, one->answer, one->compared_bytes) || !is_number(one, answer + one->answered_at, one->heard))
            refuse(one, answer, one->filled - start);
        uint64_t bucket = (*now - one->asked_at[one->heard++ % IN_FLIGHT_MAX]) / BUCKET_NS;
        if (*now < until) answers++, buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
        start += one->answer_bytes, found++;
    }
    one->filled -= start;
    memmove(one->buffer, one->buffer + start, one->filled);
    return found;
}

static double milliseconds(double share) {
    uint64_t seen = 0, wanted = answers * share;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        if ((seen += buckets[bucket]) > wanted) return (bucket + 1) * (BUCKET_NS / 1e6);
    return 0;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void window(int poll, double seconds, uint32_t in_flight, double rate) {
    struct epoll_event events[EVENTS];
    uint64_t now, begun = now_ns(), last;
    uint64_t apart = rate > 0 ? count * 1e9 / rate : 0;
    double cpu = cpu_s();
    memset(buckets, 0, sizeof buckets);
    answers = 0, until = begun + seconds * 1e9;
    for (uint32_t n = 0; n < count; n++) {
        connections[n].due = begun + n * (apart / count);
        if (!apart) say(&connections[n], in_flight, now_ns());
    }
    for (uint32_t next = 0; (now = now_ns()) < until;) {
        for (uint32_t seen = 0; apart && seen < count && connections[next].due <= now; seen++) {
            struct connection *one = &connections[next];
            if (one->asked == one->heard) say(one, 1, one->due), one->due += apart;
            next = (next + 1) % count;
        }
        int ready = epoll_wait(poll, events, EVENTS, 1);
        for (int n = 0; n < ready; n++) {
            struct connection *one = events[n].data.ptr;
            uint32_t found = hear(one, &now);
            if (apart && one->asked == one->heard && one->due <= now && now < until)
                say(one, 1, one->due), one->due += apart;
            else if (!apart && found && now < until)
                say(one, found, now);
        }
    }
    last = now_ns(), cpu = cpu_s() - cpu;
    for (uint32_t n = 0; n < count; n++)
        while (connections[n].heard != connections[n].asked) hear(&connections[n], &now);
    printf("{\"rate\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f, \"cpu_s\": %.4f,"
           " \"answers\": %lu, \"seconds\": %.4f}\n",
           answers / ((last - begun) / 1e9), milliseconds(0.5), milliseconds(0.99), milliseconds(0.999),
           milliseconds(0.9999999), cpu, (unsigned long)answers, (last - begun) / 1e9);
    fflush(stdout);
}

static void read_all(FILE *file, void *place, size_t size) {
    if (size && fread(place, size, 1, file) != 1) fail("the file of frames is too short");
}

static uint8_t *read_bytes(FILE *file, uint32_t *size) {
    read_all(file, size, 4);
    uint8_t *bytes = malloc(*size + 1);
    if (!bytes) fail("memory");
    read_all(file, bytes, *size);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) fail("an IPv4 address is needed");
    FILE *file = fopen(argv[3], "rb");
    if (!file) fail(argv[3]);
    read_all(file, &count, 4);
    connections = calloc(count, sizeof *connections);
    int poll = epoll_create1(0), yes = 1;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    for (uint32_t n = 0; n < count; n++) {
        struct connection *one = &connections[n];
        read_all(file, &one->fd, 4);
        one->request = read_bytes(file, &one->request_bytes);
        one->answer = read_bytes(file, &one->answer_bytes);
        one->offsets_at = (uint32_t *)read_bytes(file, &one->offset_count);
        one->offset_count /= 4;
        one->any_at = (uint32_t *)read_bytes(file, &one->any_count);
        one->any_count /= 4;
        read_all(file, &one->compared_bytes, 4);
        read_all(file, &one->number_at, 4);
        read_all(file, &one->answered_at, 4);
        read_all(file, &one->digits, 4);
        if (one->digits > 20) fail("a number is too long");
        if (one->request_bytes * IN_FLIGHT_MAX > sizeof out) fail("a request is too large");
        one->buffer = malloc(one->answer_bytes * IN_FLIGHT_MAX);
        if (one->fd < 0) {
            one->fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(one->fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
        } else if (fcntl(one->fd, F_SETFL, fcntl(one->fd, F_GETFL) & ~O_NONBLOCK)) {
            fail("fcntl");
        }
        setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        setsockopt(one->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, one->fd, &event)) fail("epoll_ctl");
    }
    fclose(file);
    printf("{}\n");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        double seconds, rate;
        unsigned in_flight;
        if (sscanf(line, "%lf %u %lf", &seconds, &in_flight, &rate) != 3 || in_flight > IN_FLIGHT_MAX) return 2;
        window(poll, seconds, in_flight, rate);
    }
    return 0;
}
