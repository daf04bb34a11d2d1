//! `assess --cluster`: what the next stop of running workloads cuts.

use kit::Outcome;
use serde_json::{Value, json};

use crate::fleet::lint::{FILTERS, World, injected, template};
use crate::fleet::support::LIST;

/// It reads what `lint` reads, and asks no gate.
#[test]
fn the_next_stop_of_a_running_workload_is_told() -> Outcome {
    let template = template(&Value::Null);
    let mut pods = vec![injected("web-a", &template), injected("web-b", &template)];
    pods[0]["spec"]["terminationGracePeriodSeconds"] = json!(8);
    let mut world = World::new(&template, pods)?;
    world.objects.remove(FILTERS);
    let cluster = world.start()?;
    let assess = ["assess", "--cluster", "-n", "shop", "-o", "json"];
    let said = cluster.run(&assess)?.expect(0)?.json()?;
    let asked = cluster.server.asked();
    let row = &said["workloads"][0];
    let workload = json!({ "kind": "Deployment", "namespace": "shop", "name": "web" });
    assert_eq!(row["workload"], workload);
    assert_eq!((&row["pods"], &row["grace_seconds"]), (&json!(2), &json!(8)));
    assert_eq!((&row["longest_request_ms"], &row["file"]), (&json!(5000), &Value::Null));
    assert_eq!(row["proxy"], "chart_gateway");
    cluster.run(&["lint", "--cluster", "-n", "shop"])?.expect(1)?.stderr_contains(
        "Deployment shop/web (chart gateway): its next stop: what takes longer than 5 s is cut",
    )?;
    let both = cluster.server.asked().len();
    assert!(asked.len() <= both - asked.len(), "{} of {both} requests", asked.len());
    assert_eq!(asked.iter().filter(|asked| asked.path() == LIST).count(), 1);
    cluster.run(&[&assess[..], &["--fail-on", "lost=10s"]].concat())?.expect(1)?;
    Ok(())
}
