// A Kafka consumer in Go, by sarama: `sarama BOOTSTRAP GROUP TOPIC SESSION_MS`.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

type reader struct{ topic string }

func (one reader) Setup(session sarama.ConsumerGroupSession) error {
	fmt.Println("assigned", strings.Trim(fmt.Sprint(session.Claims()[one.topic]), "[]"))
	return nil
}

func (reader) Cleanup(sarama.ConsumerGroupSession) error {
	fmt.Println("assigned")
	return nil
}

func (reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, more := <-claim.Messages():
			if !more {
				return nil
			}
			fmt.Printf("%d %d %s %s\n", record.Partition, record.Offset, record.Key, record.Value)
			session.MarkMessage(record, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	bootstrap, group, topic := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]
	session, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	settings := sarama.NewConfig()
	settings.Version = sarama.MaxVersion
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Group.Session.Timeout = time.Duration(session) * time.Millisecond
	settings.Consumer.Group.Heartbeat.Interval = settings.Consumer.Group.Session.Timeout / 10
	consumer, err := sarama.NewConsumerGroup(bootstrap, group, settings)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	stopping, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	for stopping.Err() == nil {
		// It returns whenever a session ends, be it because the coordinator went away, and is called again.
		if err := consumer.Consume(stopping, []string{topic}, reader{topic}); err != nil {
			log.Print(err)
			time.Sleep(200 * time.Millisecond)
		}
	}
}
