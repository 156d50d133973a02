// A Kafka consumer in Go, by franz-go: `franz BOOTSTRAP GROUP TOPIC SESSION_MS`.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	session, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	stopping, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	mine := map[int32]bool{}
	change := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			for _, number := range partitions[topic] {
				mine[number] = has
			}
			said := "assigned"
			for number, has := range mine {
				if has {
					said += fmt.Sprint(" ", number)
				}
			}
			fmt.Println(said)
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Duration(session)*time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(change(false)),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseAllowingRebalance()
	for stopping.Err() == nil {
		fetches := client.PollFetches(stopping)
		for _, problem := range fetches.Errors() {
			var session *kgo.ErrGroupSession
			var loss *kgo.ErrDataLoss
			switch {
			case errors.Is(problem.Err, context.Canceled):
			case errors.As(problem.Err, &session):
				// It lost its coordinator, and asked where to find it at brokers that are gone, too: it joins again by itself.
				log.Print(problem.Err)
			case errors.As(problem.Err, &loss):
				// An unclean election lost records that were read: it goes on where the new log begins by itself.
				log.Print(problem.Err)
			default:
				log.Fatal(problem.Err)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(record.Partition, record.Offset, string(record.Key), string(record.Value))
		})
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			// The coordinator moves, or a rebalance has begun: the next commit includes what this one did not.
			log.Print(err)
		}
		client.AllowRebalance()
	}
}
