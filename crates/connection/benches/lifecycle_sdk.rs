//! Runs the tool calls of the `lifecycle` bench, and also sends their updates through an SDK
//! connection. The measured CPU time ends with the line that a transport would write. The result is
//! this CPU time divided by the CPU time that only serialising the same updates takes.

#![expect(clippy::print_stdout, reason = "the figure is the output")]
#![expect(clippy::expect_used, reason = "a bench may fail by a panic")]
#![expect(clippy::disallowed_methods, reason = "the bench is all that sends")]

#[path = "../../lifecycle/benches/lifecycle/call.rs"]
mod call;
#[path = "../src/notification.rs"]
mod notification;

use std::hint::black_box;
use std::time::SystemTime;

use agent_client_protocol::{Agent, Channel, Result, TransportFrame};
use call::{CALLS_PER_ROUND, CallBench, collect_round_updates, cpu_ns, median, serialised};
use futures::StreamExt as _;
use notification::UpdateNotification;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (ours, mut peer) = Channel::duplex();
    let figures = Agent.v1().name("bench").connect_with(ours, async |client| {
        let mut stage = CallBench::new(SystemTime::now);
        let messages = collect_round_updates(&mut stage);
        let (mut whole, mut alone, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..call::round_count() {
            let start = cpu_ns();
            let mut sent = 0;
            stage.run_round(|update| {
                let params = update.into_params("sess_1");
                client.send_notification(UpdateNotification(params)).expect("the client is there");
                sent += 1;
            });
            for _ in 0..sent {
                let frame = peer.rx.next().await.expect("the connection is open");
                drop(black_box(serialise_frame(&frame)));
            }
            let middle = cpu_ns();
            messages.iter().for_each(|update| drop(black_box(serialised(update))));
            let end = cpu_ns();
            whole.push((middle - start) / CALLS_PER_ROUND as f64);
            alone.push((end - middle) / CALLS_PER_ROUND as f64);
            ratios.push((middle - start) / (end - middle));
        }
        Ok(json!({
            "value": median(ratios),
            "ns_per_call": median(whole).round(),
            "ns_serialising_alone": median(alone).round(),
        }))
    });
    println!("figures {}", figures.await?);
    Ok(())
}

fn serialise_frame(frame: &TransportFrame) -> Vec<u8> {
    match frame {
        TransportFrame::Single(message) => serde_json::to_vec(message).expect("a message is JSON"),
        _ => Vec::new(),
    }
}
