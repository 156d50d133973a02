// What an operator asks, by sarama: `saramaadmin BOOTSTRAP TOPIC FULL`; prints one JSON object.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) { must(true, err) }

// Doors hear a moment later of what another one was asked.
func eventually(condition func() bool) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if condition() {
			return
		}
	}
	log.Fatal("not within a minute")
}

func main() {
	topic, full := os.Args[2], os.Args[3]
	settings := sarama.NewConfig()
	settings.Version = sarama.MaxVersion
	client := must(sarama.NewClient(strings.Split(os.Args[1], ","), settings))
	admin := must(sarama.NewClusterAdminFromClient(client))
	defer admin.Close()
	told := map[string]any{}

	brokers, _, err := admin.DescribeCluster()
	check(err)
	nodes := []int32{}
	for _, broker := range brokers {
		nodes = append(nodes, broker.ID())
	}
	slices.Sort(nodes)
	told["cluster"] = nodes
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 2}, false))
	partitions := func(count int) (found []*sarama.PartitionMetadata) {
		eventually(func() bool {
			described := must(admin.DescribeTopics([]string{topic}))
			found = described[0].Partitions
			slices.SortFunc(found, func(a, b *sarama.PartitionMetadata) int { return int(a.ID - b.ID) })
			return len(found) == count
		})
		return found
	}
	created := partitions(2)
	told["created"] = []int{len(created[0].Replicas), len(created[1].Replicas)}
	check(admin.CreatePartitions(topic, 4, nil, false))
	told["grown"] = len(partitions(4))

	value := "86400000"
	set := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}
	check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, set, false))
	eventually(func() bool {
		for _, config := range must(admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})) {
			if config.Name == "retention.ms" {
				told["config"] = config.Value
			}
		}
		return told["config"] == value
	})

	replicas := [][]int32{}
	for _, one := range partitions(4) {
		replicas = append(replicas, one.Replicas)
	}
	for _, broker := range []int32{1, 2, 3} {
		if !slices.Contains(replicas[0], broker) {
			replicas[0] = []int32{broker, replicas[0][1]}
			break
		}
	}
	check(admin.AlterPartitionReassignments(topic, replicas))
	eventually(func() bool {
		moving := must(admin.ListPartitionReassignments(topic, []int32{0, 1, 2, 3}))
		return len(moving[topic]) == 0 && slices.Equal(partitions(4)[0].Replicas, replicas[0])
	})
	told["moved"] = true
	elected := must(admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}}))
	told["elected"] = fmt.Sprint(elected[topic][0].ErrorCode)

	earliest := must(client.GetOffset(full, 0, sarama.OffsetOldest))
	latest := must(client.GetOffset(full, 0, sarama.OffsetNewest))
	told["ends"] = []int64{earliest, latest}
	check(admin.DeleteTopic(topic))
	eventually(func() bool { _, there := must(admin.ListTopics())[topic]; return !there })
	told["deleted"] = true
	fmt.Println(string(must(json.Marshal(told))))
}
