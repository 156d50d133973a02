// What an operator asks, by franz-go's kadm: `franzadmin BOOTSTRAP TOPIC FULL`; prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	client := must(kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), kgo.MetadataMinAge(50*time.Millisecond)))
	defer client.Close()
	admin := kadm.NewClient(client)
	told := map[string]any{}

	nodes := must(admin.BrokerMetadata(ctx)).Brokers.NodeIDs()
	slices.Sort(nodes)
	told["cluster"] = nodes
	_ = must(admin.CreateTopic(ctx, 2, 2, nil, topic))
	partitions := func(count int) (found kadm.TopicDetail) {
		eventually(func() bool {
			found = must(admin.ListTopics(ctx, topic))[topic]
			return found.Err == nil && len(found.Partitions) == count
		})
		return found
	}
	created := partitions(2).Partitions
	told["created"] = []int{len(created[0].Replicas), len(created[1].Replicas)}
	must(admin.UpdatePartitions(ctx, 4, topic))
	told["grown"] = len(partitions(4).Partitions)

	value := "86400000"
	altered := must(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, topic))
	_, err := altered.On(topic, func(one *kadm.AlterConfigsResponse) error { return one.Err })
	_ = must(true, err)
	eventually(func() bool {
		described := must(must(admin.DescribeTopicConfigs(ctx, topic)).On(topic, nil))
		for _, config := range described.Configs {
			if config.Key == "retention.ms" {
				told["config"] = config.MaybeValue()
			}
		}
		return told["config"] == value
	})

	before := partitions(4).Partitions[0].Replicas
	target := []int32{0, before[1]}
	for _, broker := range []int32{1, 2, 3} {
		if !slices.Contains(before, broker) {
			target[0] = broker
		}
	}
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign(topic, 0, target)
	_ = must(true, must(admin.AlterPartitionAssignments(ctx, move)).Error())
	eventually(func() bool {
		return slices.Equal(partitions(4).Partitions[0].Replicas, target) &&
			len(must(admin.ListPartitionReassignments(ctx, nil))) == 0
	})
	told["moved"] = true
	var first kadm.TopicsSet
	first.Add(topic, 0)
	elected := must(admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, first))
	told["elected"] = fmt.Sprint(elected[topic][0].Err)

	earliest := must(admin.ListStartOffsets(ctx, full))[full][0]
	latest := must(admin.ListEndOffsets(ctx, full))[full][0]
	told["ends"] = []int64{earliest.Offset, latest.Offset}
	must(admin.DeleteTopic(ctx, topic))
	eventually(func() bool { return !must(admin.ListTopics(ctx)).Has(topic) })
	told["deleted"] = true
	fmt.Println(string(must(json.Marshal(told))))
}
