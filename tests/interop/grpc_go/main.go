// A small application over Apache's gRPC client for Go: sends or consumes through the endpoint given, prints one marked
// JSON line with the result, and ends. The commands are those of ../grpc_java/Walk.java.
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

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var limit = seconds("CONSUME_LIMIT_S", "60")

type received struct {
	Body    string `json:"body"`
	Tag     string `json:"tag"`
	Attempt int32  `json:"attempt"`
	Colour  string `json:"colour"`
	Size    int    `json:"size"`
}

func answer(kind string, value any) {
	text, _ := json.Marshal(map[string]any{kind: value})
	fmt.Printf("@@%s\n", text)
}

func check(fault error) {
	if fault != nil {
		answer("error", fault.Error())
		os.Exit(1)
	}
}

func told(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func seconds(name, otherwise string) time.Duration {
	value, fault := time.ParseDuration(told(name, otherwise) + "s")
	check(fault)
	return value
}

func config(group string) *rmq.Config {
	keys := &credentials.SessionCredentials{AccessKey: told("CLIENT_KEY", "none"), AccessSecret: told("CLIENT_SECRET", "none")}
	return &rmq.Config{Endpoint: os.Args[2], ConsumerGroup: group, Credentials: keys}
}

func message(topic, body string) *rmq.Message {
	pad, _ := strconv.Atoi(os.Getenv("WALK_PAD"))
	one := &rmq.Message{Topic: topic, Body: []byte(body + strings.Repeat(".", max(0, pad-len(body))))}
	one.SetKeys("key of " + body)
	one.AddProperty("colour", "blue")
	return one
}

func send(topic string, bodies []string, dress func(*rmq.Message)) []string {
	producer, fault := rmq.NewProducer(config(""), rmq.WithTopics(topic))
	check(fault)
	check(producer.Start())
	ids := []string{}
	for _, body := range bodies {
		one := message(topic, body)
		dress(one)
		receipts, fault := producer.Send(context.Background(), one)
		check(fault)
		ids = append(ids, receipts[0].MessageID)
	}
	check(producer.GracefulStop())
	return ids
}

func transact(topic string, checks int, bodies []string) []string {
	var lock sync.Mutex
	asked, enough := []string{}, make(chan bool, 1000)
	checker := &rmq.TransactionChecker{Check: func(view *rmq.MessageView) rmq.TransactionResolution {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, string(view.GetBody()))
		enough <- true
		return rmq.COMMIT
	}}
	producer, fault := rmq.NewProducer(config(""), rmq.WithTransactionChecker(checker), rmq.WithTopics(topic))
	check(fault)
	check(producer.Start())
	for _, body := range bodies {
		transaction := producer.BeginTransaction()
		_, fault := producer.SendWithTransaction(context.Background(), message(topic, body), transaction)
		check(fault)
		if strings.HasPrefix(body, "commit") {
			check(transaction.Commit())
		}
		if strings.HasPrefix(body, "rollback") {
			check(transaction.RollBack())
		}
	}
	late := time.After(limit)
	for range checks {
		select {
		case <-enough:
		case <-late:
		}
	}
	time.Sleep(500 * time.Millisecond) // the answer to the last check is on its way
	lock.Lock()
	defer lock.Unlock()
	return asked
}

func view(one *rmq.MessageView) received {
	tag := ""
	if one.GetTag() != nil {
		tag = *one.GetTag()
	}
	body := string(one.GetBody())
	shown := strings.TrimRight(body, ".")
	return received{shown, tag, one.GetDeliveryAttempt(), one.GetProperties()["colour"], len(body)}
}

func subscription(topic, tags string) map[string]*rmq.FilterExpression {
	filter := rmq.NewFilterExpression(tags)
	if expression, is := strings.CutPrefix(tags, "sql:"); is {
		filter = rmq.NewFilterExpressionWithType(expression, rmq.SQL92)
	}
	return map[string]*rmq.FilterExpression{topic: filter}
}

func simple(topic, group, tags string, count int) []received {
	consumer, fault := rmq.NewSimpleConsumer(config(group), rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(subscription(topic, tags)))
	check(fault)
	check(consumer.Start())
	all, end := []received{}, time.Now().Add(limit)
	for len(all) < count && time.Now().Before(end) {
		views, fault := consumer.Receive(context.Background(), 16, 20*time.Second)
		if fault != nil {
			fmt.Fprintln(os.Stderr, fault) // nothing came, or the server is away: it comes back
			time.Sleep(200 * time.Millisecond)
		}
		for _, one := range views {
			fmt.Println("got", view(one).Body)
			all = append(all, view(one))
			if fault := consumer.Ack(context.Background(), one); fault != nil {
				fmt.Fprintln(os.Stderr, fault)
			}
		}
	}
	return all
}

func push(topic, group, tags string, count int, result rmq.ConsumerResult, pause time.Duration) []received {
	var lock sync.Mutex
	all, enough := []received{}, make(chan bool, 1)
	listener := &rmq.FuncMessageListener{Consume: func(one *rmq.MessageView) rmq.ConsumerResult {
		fmt.Println("got", view(one).Body)
		time.Sleep(pause)
		lock.Lock()
		defer lock.Unlock()
		all = append(all, view(one))
		if len(all) == count {
			enough <- true
		}
		return result
	}}
	consumer, fault := rmq.NewPushConsumer(config(group), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(subscription(topic, tags)), rmq.WithPushMessageListener(listener),
		rmq.WithPushConsumptionThreadCount(4), rmq.WithPushMaxCacheMessageCount(1024))
	check(fault)
	check(consumer.Start())
	select {
	case <-enough:
	case <-time.After(limit):
	}
	time.Sleep(500 * time.Millisecond) // acks of the last ones are on their way
	lock.Lock()
	defer lock.Unlock()
	return all
}

func main() {
	rmq.EnableSsl = os.Getenv("WALK_TLS") != ""
	rmq.ResetLogger()
	command, topic, words := os.Args[1], os.Args[3], os.Args[4:]
	switch command {
	case "send":
		answer("done", send(topic, words[1:], func(one *rmq.Message) { one.SetTag(words[0]) }))
	case "fifo":
		answer("done", send(topic, words[1:], func(one *rmq.Message) { one.SetMessageGroup(words[0]) }))
	case "delay":
		later, fault := strconv.Atoi(words[0])
		check(fault)
		answer("done", send(topic, words[1:], func(one *rmq.Message) {
			one.SetDelayTimestamp(time.Now().Add(time.Duration(later) * time.Millisecond))
		}))
	case "transact":
		checks, fault := strconv.Atoi(words[0])
		check(fault)
		answer("done", transact(topic, checks, words[1:]))
	case "simple", "push", "fail", "slow":
		count, fault := strconv.Atoi(words[2])
		check(fault)
		if command == "simple" {
			answer("done", simple(topic, words[0], words[1], count))
		} else if command == "push" {
			answer("done", push(topic, words[0], words[1], count, rmq.SUCCESS, 0))
		} else if command == "slow" {
			pause, fault := strconv.Atoi(words[3])
			check(fault)
			took := time.Duration(pause) * time.Millisecond
			answer("done", push(topic, words[0], words[1], count, rmq.SUCCESS, took))
		} else {
			answer("done", push(topic, words[0], words[1], count, rmq.FAILURE, 0))
		}
	}
	os.Exit(0)
}
