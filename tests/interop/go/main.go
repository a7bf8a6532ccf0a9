// A small application over rocketmq-client-go: send messages with tags, or consume those of some tags, through the
// name server given. Prints one marked JSON line with the result.
//
//	client send NAMESERVER TOPIC TAG BODY...
//	client consume NAMESERVER TOPIC GROUP TAGS COUNT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const limit = 30 * time.Second

func main() {
	rlog.SetLogLevel("error")
	value, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		answer("error", err.Error())
		os.Exit(1)
	}
	answer("done", value)
}

func run(command string, words []string) (any, error) {
	switch command {
	case "send":
		return send(words[0], words[1], words[2], words[3:])
	case "consume":
		return consume(words[0], words[1], words[2], words[3], words[4])
	}
	return nil, fmt.Errorf("unknown command %s", command)
}

func answer(kind string, value any) {
	line, _ := json.Marshal(map[string]any{kind: value})
	fmt.Printf("@@%s\n", line)
}

func send(nameServer, topic, tag string, bodies []string) (any, error) {
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{nameServer}),
		producer.WithGroupName("PG_go"),
		producer.WithSendMsgTimeout(10*time.Second),
	)
	if err != nil {
		return nil, err
	}
	if err := sender.Start(); err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	statuses := []string{}
	for _, body := range bodies {
		message := primitive.NewMessage(topic, []byte(body)).WithTag(tag).WithKeys([]string{body})
		result, err := sender.SendSync(context.Background(), message)
		if err != nil {
			return nil, err
		}
		statuses = append(statuses, [...]string{"SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT",
			"SLAVE_NOT_AVAILABLE", "UNKNOWN"}[result.Status])
	}
	return statuses, nil
}

func consume(nameServer, topic, group, tags, count string) (any, error) {
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	receiver, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{nameServer}),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	arrived := make(chan *primitive.MessageExt, 1000)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			arrived <- message
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := receiver.Subscribe(topic, selector, take); err != nil {
		return nil, err
	}
	if err := receiver.Start(); err != nil {
		return nil, err
	}
	defer receiver.Shutdown()
	received := []map[string]string{}
	end := time.After(limit)
	for len(received) < wanted {
		select {
		case message := <-arrived:
			one := map[string]string{"body": string(message.Body), "tag": message.GetTags(), "key": message.GetKeys()}
			received = append(received, one)
		case <-end:
			return received, nil
		}
	}
	return received, nil
}
