// A small application over rocketmq-client-go: send messages with tags, or consume those of some tags, through the
// name server given. Prints one marked JSON line with the result.
//
//	client send NAMESERVER TOPIC TAG BODY...
//	client consume NAMESERVER TOPIC GROUP TAGS COUNT
//	client retry NAMESERVER TOPIC GROUP MAX COUNT
//	client request NAMESERVER TOPIC MILLISECONDS BODY...
//	client transact NAMESERVER TOPIC GROUP CHECKS BODY...
//
// CLIENT_KEY and CLIENT_SECRET sign its requests, CONSUME_LIMIT_S is how long it waits for messages.
//
// A transactional message's body is its fate, what the producer says of it: "commit 7", or "unknown rollback 7" for
// unknown at first and rollback when it is asked. The answer is given after so many CHECKS.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const limit = 30 * time.Second

var keys = primitive.Credentials{AccessKey: os.Getenv("CLIENT_KEY"), SecretKey: os.Getenv("CLIENT_SECRET")}

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
		return send(words[0], words[1], words[2], 0, words[3:])
	case "delay":
		level, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, err
		}
		return send(words[0], words[1], "TagA", level, words[3:])
	case "consume":
		return consume(words[0], words[1], words[2], words[3], words[4])
	case "retry":
		return retry(words[0], words[1], words[2], words[3], words[4])
	case "request":
		return request(words[0], words[1], words[2], words[3:])
	case "transact":
		return transact(words[0], words[1], words[2], words[3], words[4:])
	}
	return nil, fmt.Errorf("unknown command %s", command)
}

func answer(kind string, value any) {
	line, _ := json.Marshal(map[string]any{kind: value})
	fmt.Printf("@@%s\n", line)
}

func send(nameServer, topic, tag string, level int, bodies []string) (any, error) {
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{nameServer}),
		producer.WithCredentials(keys),
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
		if level > 0 {
			message.WithDelayTimeLevel(level)
		}
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
		consumer.WithCredentials(keys),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	arrived := make(chan *primitive.MessageExt, 1000)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	if sql, found := strings.CutPrefix(tags, "SQL92:"); found {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
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
	if seconds, err := strconv.Atoi(os.Getenv("CONSUME_LIMIT_S")); err == nil {
		end = time.After(time.Duration(seconds) * time.Second)
	}
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

// retry fails every delivery, until so many have come.
func retry(nameServer, topic, group, most, count string) (any, error) {
	retries, err := strconv.Atoi(most)
	if err != nil {
		return nil, err
	}
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	receiver, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{nameServer}),
		consumer.WithCredentials(keys),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(int32(retries)),
	)
	if err != nil {
		return nil, err
	}
	arrived := make(chan *primitive.MessageExt, 1000)
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			arrived <- message
		}
		return consumer.ConsumeRetryLater, nil
	}
	if err := receiver.Subscribe(topic, consumer.MessageSelector{}, take); err != nil {
		return nil, err
	}
	if err := receiver.Start(); err != nil {
		return nil, err
	}
	received := []map[string]string{}
	end := time.After(2 * limit)
	for len(received) < wanted {
		select {
		case message := <-arrived:
			one := map[string]string{"topic": message.Topic, "times": strconv.Itoa(int(message.ReconsumeTimes))}
			received = append(received, one)
		case <-end:
			return received, nil
		}
	}
	time.Sleep(time.Second) // the last one is given back behind our back
	receiver.Shutdown()
	return received, nil
}

type fates struct {
	lock   sync.Mutex
	asked  map[string]int
	checks chan string
}

func (f *fates) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return state(string(message.Body), 0)
}

func (f *fates) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	body := string(message.Body)
	f.lock.Lock()
	f.asked[body]++
	step := f.asked[body]
	f.lock.Unlock()
	f.checks <- body
	return state(body, step)
}

func state(body string, step int) primitive.LocalTransactionState {
	words := strings.Split(body, " ")
	switch words[min(step, len(words)-2)] {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func transact(nameServer, topic, group, checks string, bodies []string) (any, error) {
	wanted, err := strconv.Atoi(checks)
	if err != nil {
		return nil, err
	}
	listener := &fates{asked: map[string]int{}, checks: make(chan string, 1000)}
	sender, err := rocketmq.NewTransactionProducer(listener,
		producer.WithNameServer([]string{nameServer}),
		producer.WithCredentials(keys),
		producer.WithGroupName(group),
		producer.WithSendMsgTimeout(10*time.Second),
	)
	if err != nil {
		return nil, err
	}
	if err := sender.Start(); err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	for _, body := range bodies {
		message := primitive.NewMessage(topic, []byte(body)).WithKeys([]string{body})
		if _, err := sender.SendMessageInTransaction(context.Background(), message); err != nil {
			return nil, err
		}
	}
	checked := []string{}
	end := time.After(limit)
	for len(checked) < wanted {
		select {
		case body := <-listener.checks:
			checked = append(checked, body)
		case <-end:
			return checked, nil
		}
	}
	time.Sleep(time.Second) // the answer to the last check leaves after its listener returned
	return checked, nil
}

// The answer to each body, or "timed out".
func request(nameServer, topic, milliseconds string, bodies []string) (any, error) {
	limit, err := strconv.Atoi(milliseconds)
	if err != nil {
		return nil, err
	}
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{nameServer}),
		producer.WithCredentials(keys),
		producer.WithGroupName("PG_go_request"),
		producer.WithSendMsgTimeout(10*time.Second),
	)
	if err != nil {
		return nil, err
	}
	if err := sender.Start(); err != nil {
		return nil, err
	}
	defer sender.Shutdown()
	answers := []string{}
	for _, body := range bodies {
		message := primitive.NewMessage(topic, []byte(body))
		reply, err := sender.Request(context.Background(), time.Duration(limit)*time.Millisecond, message)
		if err != nil {
			answers = append(answers, "timed out")
		} else {
			answers = append(answers, string(reply.Body))
		}
	}
	return answers, nil
}
