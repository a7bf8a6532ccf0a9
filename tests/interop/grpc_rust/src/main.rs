//! A small application over Apache's gRPC client for Rust: sends or consumes through the endpoint given, prints one
//! marked JSON line with the result, and ends. The commands are those of ../grpc_java/Walk.java; this client has no push
//! consumer.
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

const LIMIT: Duration = Duration::from_secs(60);

fn client(endpoint: &str) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(endpoint);
    option.set_enable_tls(false);
    option.set_long_polling_timeout(Duration::from_secs(10)); // also the deadline, which may not be below 5 s
    option
}

fn producer(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

fn dressed(builder: MessageBuilder, body: &str) -> MessageBuilder {
    let properties = HashMap::from([("colour", "blue")]);
    builder.set_keys(vec![format!("key of {body}")]).set_properties(properties)
}

fn seconds_later(milliseconds: u64) -> i64 {
    let then = SystemTime::now() + Duration::from_millis(milliseconds);
    then.duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_secs() as i64 + 1 // it sends whole seconds
}

async fn send(endpoint: &str, topic: &str, kind: &str, word: &str, bodies: &[String]) -> Result<Value, ClientError> {
    let mut sending = Producer::new(producer(topic), client(endpoint))?;
    sending.start().await?;
    let mut ids = Vec::new();
    for body in bodies {
        let bytes = body.as_bytes().to_vec();
        let builder = match kind {
            "fifo" => MessageBuilder::fifo_message_builder(topic, bytes, word),
            "delay" => {
                let later = word.parse().expect("milliseconds");
                MessageBuilder::delay_message_builder(topic, bytes, seconds_later(later))
            }
            _ => MessageBuilder::builder().set_topic(topic).set_body(bytes).set_tag(word),
        };
        ids.push(sending.send(dressed(builder, body).build()?).await?.message_id().to_string());
    }
    sending.shutdown().await?;
    Ok(json!(ids))
}

async fn transact(endpoint: &str, topic: &str, checks: usize, bodies: &[String]) -> Result<Value, ClientError> {
    let asked = Arc::new(Mutex::new(Vec::<String>::new()));
    let noted = asked.clone();
    let checker = move |_: String, view: MessageView| {
        noted.lock().unwrap().push(String::from_utf8_lossy(view.body()).into_owned());
        TransactionResolution::COMMIT
    };
    let mut sending = Producer::new_transaction_producer(producer(topic), client(endpoint), Box::new(checker))?;
    sending.start().await?;
    for body in bodies {
        let builder = MessageBuilder::transaction_message_builder(topic, body.as_bytes().to_vec());
        let transaction = sending.send_transaction_message(dressed(builder, body).build()?).await?;
        if body.starts_with("commit") {
            transaction.commit().await?;
        } else if body.starts_with("rollback") {
            transaction.rollback().await?;
        }
    }
    let end = Instant::now() + LIMIT;
    while asked.lock().unwrap().len() < checks && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await; // the answer to the last check is on its way
    let all = asked.lock().unwrap().clone();
    Ok(json!(all))
}

/// In one piece: the client's log goes to the same place from another thread, and may have left a line unended.
fn say(line: &str) {
    std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).expect("a reader");
}

fn seen(view: &MessageView) -> Value {
    let colour = view.properties().get("colour").cloned().unwrap_or_default();
    let body = String::from_utf8_lossy(view.body()).into_owned();
    json!({"body": body, "tag": view.tag().unwrap_or(""), "attempt": view.delivery_attempt(), "colour": colour})
}

async fn simple(endpoint: &str, topic: &str, group: &str, tags: &str, count: usize) -> Result<Value, ClientError> {
    let (mut all, end) = (Vec::new(), Instant::now() + LIMIT);
    let consumer = loop {
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![topic]);
        option.set_consumer_group(group);
        let mut starting = SimpleConsumer::new(option, client(endpoint))?;
        match starting.start().await {
            Ok(()) => break starting,
            Err(fault) if Instant::now() > end => return Err(fault),
            Err(fault) => eprintln!("{fault}"), // the server is away: it comes back
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let filter = FilterExpression::new(FilterType::Tag, tags);
    while all.len() < count && Instant::now() < end {
        match consumer.receive_with(topic, &filter, 16, Duration::from_secs(20)).await {
            Ok(views) => {
                for view in &views {
                    say(&format!("got {}", String::from_utf8_lossy(view.body())));
                    all.push(seen(view));
                    if let Err(fault) = consumer.ack(view).await {
                        eprintln!("{fault}");
                    }
                }
            }
            Err(fault) => {
                eprintln!("{fault}"); // nothing came, or the server is away: it comes back
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    Ok(json!(all))
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (kind, endpoint, topic, rest) = (words[0].as_str(), &words[1], &words[2], &words[3..]);
    let number = |text: &String| text.parse().expect("a number");
    let done = match kind {
        "send" | "fifo" | "delay" => send(endpoint, topic, kind, &rest[0], &rest[1..]).await,
        "transact" => transact(endpoint, topic, number(&rest[0]), &rest[1..]).await,
        "simple" => simple(endpoint, topic, &rest[0], &rest[1], number(&rest[2])).await,
        other => panic!("this client has no {other}"),
    };
    let answer = match done {
        Ok(value) => json!({"done": value}),
        Err(fault) => json!({"error": fault.to_string()}),
    };
    say(&format!("@@{answer}"));
    std::process::exit(0);
}
