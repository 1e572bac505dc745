//! The files of `deploy` match the programs: manifests have only keys that Kubernetes knows; commands, variables and
//! configurations are valid for the agent and the collector.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Parser as _;
use fabriclens_agent::cli::Cli as AgentCli;
use fabriclens_agent::config as agent_config;
use fabriclens_agent_samplers as samplers;
use fabriclens_agent_uplink::config::Mode;
use fabriclens_config::ServeRole;
use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Documents of a file.
fn yaml(path: &str) -> Vec<Value> {
    let text = text(path);
    let documents = yaml_serde::Deserializer::from_str(&text);
    let all = documents.map(|d| serde::Deserialize::deserialize(d).unwrap_or_else(|e| panic!("{path}: {e}")));
    all.filter(|d: &Value| !d.is_null()).collect()
}

/// Keys that the type does not know.
fn unknown<T: DeserializeOwned>(object: &Value) -> Result<Vec<String>, String> {
    let mut ignored = Vec::new();
    // `serde_ignored` writes "?" for each Option in the path.
    serde_ignored::deserialize::<_, _, T>(object, |path| ignored.push(path.to_string().replace(".?", "")))
        .map_err(|e| e.to_string())?;
    Ok(ignored)
}

/// Keys of an object that Kubernetes would not know, by its kind.
fn misfits(object: &Value) -> Result<Vec<String>, String> {
    match (object["apiVersion"].as_str(), object["kind"].as_str()) {
        (Some("v1"), Some("Namespace")) => unknown::<Namespace>(object),
        (Some("v1"), Some("ServiceAccount")) => unknown::<ServiceAccount>(object),
        (Some("v1"), Some("ConfigMap")) => unknown::<ConfigMap>(object),
        (Some("v1"), Some("Service")) => unknown::<Service>(object),
        (Some("apps/v1"), Some("DaemonSet")) => unknown::<DaemonSet>(object),
        (Some("apps/v1"), Some("StatefulSet")) => unknown::<StatefulSet>(object),
        (Some("networking.k8s.io/v1"), Some("NetworkPolicy")) => unknown::<NetworkPolicy>(object),
        (Some("policy/v1"), Some("PodDisruptionBudget")) => unknown::<PodDisruptionBudget>(object),
        (Some("rbac.authorization.k8s.io/v1"), Some("ClusterRole")) => unknown::<ClusterRole>(object),
        (Some("rbac.authorization.k8s.io/v1"), Some("ClusterRoleBinding")) => unknown::<ClusterRoleBinding>(object),
        (Some("scheduling.k8s.io/v1"), Some("PriorityClass")) => unknown::<PriorityClass>(object),
        other => Err(format!("no type for {other:?}")),
    }
}

/// One collector.
const ONE: &str = "deploy/kubernetes/fabriclens.yaml";
/// Ingest collectors, a judge and its standby.
const ROLES: &str = "deploy/kubernetes/roles.yaml";

fn find(manifests: &str, kind: &str, name: &str) -> Value {
    let found = yaml(manifests).into_iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

#[test]
fn manifests_match_the_kubernetes_schema() {
    for (manifests, objects) in [(ONE, 13), (ROLES, 21)] {
        let all = yaml(manifests);
        assert_eq!(all.len(), objects, "{manifests}");
        for object in all {
            assert_eq!(misfits(&object), Ok(Vec::new()), "{} {}", object["kind"], object["metadata"]["name"]);
        }
    }
    let mut wrong = find(ONE, "DaemonSet", "fabriclens-agent");
    wrong["spec"]["template"]["spec"]["hostNetwrok"] = json!(true);
    assert_eq!(misfits(&wrong), Ok(vec!["spec.template.spec.hostNetwrok".to_owned()]));
}

/// A pod's only container: arguments, variables, and the file of its ConfigMap as Kubernetes mounts it.
struct Container {
    spec: Value,
    args: Vec<String>,
    env: Vec<(String, String)>,
    config: tempfile::NamedTempFile,
}

fn container(manifests: &str, owner: &Value, file: &str) -> Container {
    let pod = &owner["spec"]["template"]["spec"];
    let spec = pod["containers"][0].clone();
    let map = pod["volumes"].as_array().unwrap().iter().find(|v| v["name"] == "config").unwrap();
    let config = tempfile::NamedTempFile::new().unwrap();
    let data = find(manifests, "ConfigMap", map["configMap"]["name"].as_str().unwrap());
    std::fs::write(config.path(), data["data"][file].as_str().unwrap()).unwrap();
    let mount = format!("/etc/fabriclens/{file}");
    assert!(spec["volumeMounts"].as_array().unwrap().iter().any(|m| m["mountPath"] == mount.as_str()));
    let args = spec["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
    let args = args.map(|a| if a == mount { config.path().display().to_string() } else { a.to_owned() });
    let value = |v: &Value| v["value"].as_str().unwrap_or("told by the node").to_owned();
    let env = spec["env"].as_array().into_iter().flatten().map(|v| (v["name"].as_str().unwrap().to_owned(), value(v)));
    Container { args: args.collect(), env: env.collect(), config, spec }
}

/// Configuration of the agent for a command line (without the program's name) and variables.
fn agent(args: &[String], env: &[(String, String)]) -> Result<agent_config::Config, String> {
    let cli = AgentCli::try_parse_from(std::iter::once("fabriclens-agent".to_owned()).chain(args.to_vec()))
        .map_err(|e| e.to_string())?;
    let fabriclens_agent::cli::Command::Run(run) = cli.command else { panic!("{args:?} does not run it") };
    let flags = agent_config::Overrides { host: cli.common.host, http: run.http, collector: run.collector };
    let names: Vec<&str> = samplers::ALL.iter().map(|s| s.name).collect();
    agent_config::load(cli.common.config.as_deref(), env.iter().cloned(), &flags, &names).map_err(|e| e.to_string())
}

/// The same of the collector.
fn collector(args: &[String], env: &[(String, String)]) -> Result<fabriclens_config::Config, String> {
    use fabriclens::cli::{Cli, Command};
    let cli = Cli::try_parse_from(std::iter::once("fabriclens".to_owned()).chain(args.to_vec()))
        .map_err(|e| e.to_string())?;
    let Command::Serve(serve) = cli.command else { panic!("{args:?} does not serve") };
    fabriclens_config::load(serve.config.as_deref(), env.iter().cloned(), &serve.overrides()).map_err(|e| e.to_string())
}

#[test]
fn agent_accepts_its_pod_arguments() {
    let owner = find(ONE, "DaemonSet", "fabriclens-agent");
    let mut pod = container(ONE, &owner, "agent.toml");
    let config = agent(&pod.args, &pod.env).unwrap();
    assert_eq!(config.settings.host, "told by the node");
    assert_eq!(config.collector.unwrap().url, "http://fabriclens.fabriclens.svc:4317");
    let listen = config.http.unwrap().listen;
    assert!(listen.ip().is_loopback());
    assert_eq!(pod.spec["ports"][0]["containerPort"], listen.port());
    // Variables that Kubernetes would make for a service called fabriclens-agent.
    assert_eq!(owner["spec"]["template"]["spec"]["enableServiceLinks"], false);
    pod.env.push(("FABRICLENS_AGENT_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned()));
    assert!(agent(&pod.args, &pod.env).unwrap_err().contains("FABRICLENS_AGENT_SERVICE_HOST"));
    std::fs::write(pod.config.path(), "logg = 'debug'").unwrap();
    pod.env.pop();
    assert!(agent(&pod.args, &pod.env).unwrap_err().contains("logg"));
}

#[test]
fn collector_accepts_its_pod_arguments() {
    let owner = find(ONE, "StatefulSet", "fabriclens");
    let pod = container(ONE, &owner, "collector.toml");
    let config = collector(&pod.args, &pod.env).unwrap();
    let mounts = pod.spec["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|m| m["name"] == "data" && config.data == Path::new(m["mountPath"].as_str().unwrap())));
    assert_eq!(owner["spec"]["volumeClaimTemplates"][0]["metadata"]["name"], "data");
    let ports: BTreeMap<_, _> = config.listen.all().into_iter().collect();
    for (port, key) in [("http", "listen.http"), ("otlp-grpc", "listen.otlp_grpc"), ("otlp-http", "listen.otlp_http")] {
        let told = pod.spec["ports"].as_array().unwrap().iter().find(|p| p["name"] == port).unwrap();
        assert_eq!(told["containerPort"], ports[key].port(), "{port}");
        assert!(ports[key].ip().is_unspecified());
    }
    assert!(config.jobs.kubernetes.is_some());
}

#[test]
fn agents_ingest_collectors_and_judges_find_each_other() {
    let set = |name: &str| find(ROLES, "StatefulSet", name);
    let pod = |name: &str| container(ROLES, &set(name), "collector.toml");
    let configured = |pod: &Container| collector(&pod.args, &pod.env).unwrap();
    // DNS names of the pods of a StatefulSet, with the scheme and a port.
    let urls = |name: &str, port: u16| -> Vec<String> {
        let spec = &set(name)["spec"];
        let service = spec["serviceName"].as_str().unwrap();
        let headless = find(ROLES, "Service", service);
        assert_eq!(headless["spec"]["clusterIP"], "None");
        assert_eq!(headless["spec"]["publishNotReadyAddresses"], true, "a standby is not ready");
        let labels = &spec["template"]["metadata"]["labels"];
        for (key, value) in headless["spec"]["selector"].as_object().unwrap() {
            assert_eq!(labels[key], *value, "{service} finds the pods of {name}");
        }
        let count = spec["replicas"].as_u64().unwrap();
        (0..count).map(|i| format!("http://{name}-{i}.{service}.fabriclens.svc:{port}")).collect()
    };

    let judges = ["fabriclens", "fabriclens-standby"];
    let shared: Vec<_> = judges.iter().map(|name| configured(&pod(name))).collect();
    assert!(shared.iter().all(|config| config.role == ServeRole::Judge && config.store.is_some()));
    assert_eq!(shared[0].judge.lease, Some(PathBuf::from("/var/lib/fabriclens/judge.lease")));
    assert_eq!(
        (&shared[0].data, &shared[0].judge),
        (&shared[1].data, &shared[1].judge),
        "one data directory, one lease"
    );
    let claim =
        |name: &str| set(name)["spec"]["template"]["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"].clone();
    assert_eq!((claim(judges[0]), claim(judges[1])), (json!("judges"), json!("judges")));
    let service = find(ROLES, "Service", "fabriclens");
    let selector = service["spec"]["selector"].as_object().unwrap();
    for name in judges {
        let labels = set(name)["spec"]["template"]["metadata"]["labels"].clone();
        assert!(selector.iter().all(|(key, value)| labels[key] == *value), "the API of {name}");
    }

    let ingest = pod("fabriclens-ingest");
    let ingest = configured(&ingest);
    assert_eq!(ingest.role, ServeRole::Ingest);
    let asked: Vec<String> = ingest.judge.endpoints.iter().map(|judge| judge.url.clone()).collect();
    assert_eq!(asked, judges.iter().flat_map(|name| urls(name, 7470)).collect::<Vec<_>>());
    assert_eq!(ingest.store.unwrap().read.url, shared[0].store.as_ref().unwrap().read.url);

    let agents = container(ROLES, &find(ROLES, "DaemonSet", "fabriclens-agent"), "agent.toml");
    let sending = agent(&agents.args, &agents.env).unwrap().collector.unwrap();
    assert_eq!(sending.mode, Mode::Spread);
    let receivers: Vec<String> = std::iter::once(sending.url).chain(sending.others).collect();
    assert_eq!(receivers, urls("fabriclens-ingest", 4317));
}

#[test]
fn collector_meets_restricted_pod_security() {
    let pod = find(ONE, "StatefulSet", "fabriclens")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let own = &pod["containers"][0]["securityContext"];
    assert_eq!(own["allowPrivilegeEscalation"], false);
    assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}));
    for shared in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod[shared].is_null(), "{shared}");
    }
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(volumes.iter().all(|v| v["hostPath"].is_null()), "{volumes:?}");
}

#[test]
fn chart_and_images_have_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(yaml("deploy/helm/fabriclens/Chart.yaml")[0]["appVersion"], version);
    for (kind, name, image) in
        [("DaemonSet", "fabriclens-agent", "fabriclens-agent"), ("StatefulSet", "fabriclens", "fabriclens")]
    {
        let told = find(ONE, kind, name)["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        assert_eq!(told, format!("registry.example/{image}:{version}").as_str());
        assert!(text("deploy/container/Containerfile").contains(&format!(" AS {image}\n")));
    }
    assert_eq!(yaml("deploy/ansible/roles/fabriclens/defaults/main.yml")[0]["fabriclens_version"], version);
}

#[test]
fn operator_gets_the_same_rules() {
    let rule = &yaml("deploy/kubernetes/prometheus-rule.yaml")[0];
    let rules = yaml("dashboards/alerts/fabriclens.rules.yml");
    assert!(rules[0]["groups"][0]["rules"][0]["expr"].as_str().unwrap().contains("fabric_"));
    assert_eq!(rule["spec"], rules[0]);
    let monitor = &yaml("deploy/kubernetes/service-monitor.yaml")[0];
    let service = find(ONE, "Service", "fabriclens");
    assert!(
        service["spec"]["ports"]
            .as_array()
            .unwrap()
            .iter()
            .any(|p| p["name"] == monitor["spec"]["endpoints"][0]["port"])
    );
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(service["metadata"]["labels"][label], *value);
    }
}

/// Without its members cargo reads no workspace, and so builds no image.
#[test]
fn images_copy_every_workspace_member() {
    let ignored = text("deploy/container/Containerfile.dockerignore");
    let manifest = text("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let members: Vec<String> = serde_json::from_str(members).unwrap();
    assert!(members.iter().any(|member| member == "agent/catalog"), "{members:?}");
    assert!(ignored.lines().any(|line| line == "!console/dist"), "the collector embeds the console");
    for top in members.iter().map(|member| member.split('/').next().unwrap()) {
        assert!(ignored.lines().any(|line| line == format!("!{top}")), "Containerfile.dockerignore leaves out {top}");
    }
}

#[test]
fn compose_file_names_existing_parts() {
    let compose = &yaml("deploy/compose/compose.yaml")[0];
    let here = root().join("deploy/compose");
    let mut mounted = 0;
    for (name, service) in compose["services"].as_object().unwrap() {
        for volume in service["volumes"].as_array().unwrap() {
            let Some((from, _)) = volume.as_str().and_then(|v| v.split_once(':')) else { continue };
            if from.starts_with('.') {
                assert!(here.join(from).exists(), "{name} mounts {from}");
                mounted += 1;
            } else if !from.starts_with('/') {
                assert!(compose["volumes"].as_object().unwrap().contains_key(from), "{name}: {from}");
            }
        }
    }
    assert_eq!(mounted, 7);
    let command = |name: &str| -> Vec<String> {
        let words = compose["services"][name]["command"].as_array().unwrap();
        let at = here.join("collector.toml").display().to_string();
        words.iter().map(|w| w.as_str().unwrap().replace("/etc/fabriclens/collector.toml", &at)).collect()
    };
    let config = collector(&command("collector"), &[]).unwrap();
    assert_eq!(config.forward[0].endpoint.url, "http://prometheus:9090/api/v1/write");
    assert_eq!(config.alertmanager.endpoints[0].url, "http://alertmanager:9093");
    // A collector that cannot write forwards nothing: Prometheus asks it how it is, and has the answer once.
    let prometheus = &yaml("deploy/compose/prometheus.yml")[0];
    let jobs = prometheus["scrape_configs"].as_array().unwrap();
    let own = jobs.iter().find(|j| j["job_name"] == "fabriclens").unwrap();
    assert_eq!(own["static_configs"][0]["targets"][0], format!("collector:{}", config.listen.http.port()));
    let other = |selector: &String| {
        selector.contains(r#"__name__!~"fabriclens_.*""#) || selector.contains(r#"job!="fabriclens""#)
    };
    assert!(!config.forward[0].select.is_empty() && config.forward[0].select.iter().all(other));
    assert_eq!(agent(&command("agent"), &[]).unwrap().collector.unwrap().url, "http://127.0.0.1:4317");
    assert!(compose["services"]["prometheus"]["command"].to_string().contains("--web.enable-remote-write-receiver"));
}

#[test]
fn ansible_and_opentelemetry_match_the_programs() {
    let defaults = &yaml("deploy/ansible/roles/fabriclens/defaults/main.yml")[0];
    let url = defaults["fabriclens_collector_url"].as_str().unwrap();
    let toml = defaults["fabriclens_agent_config"].as_str().unwrap().replace("{{ fabriclens_collector_url }}", url);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let args = |first: &str| [first.to_owned(), "--config".to_owned(), file.path().display().to_string()];
    assert_eq!(agent(&args("run"), &[]).unwrap().collector.unwrap().url, url);
    std::fs::write(file.path(), defaults["fabriclens_collector_config"].as_str().unwrap()).unwrap();
    collector(&args("serve"), &[]).unwrap();

    // The example: agents send to the collector's machine, where it listens for them.
    let site = &yaml("deploy/ansible/site.yml")[0];
    let inventory = text("deploy/ansible/inventory.ini");
    let url = inventory.lines().find_map(|line| line.strip_prefix("fabriclens_collector_url=")).unwrap();
    let config = |play: usize, key: &str| site[play]["roles"][0][key].as_str().unwrap().to_owned();
    let toml = config(1, "fabriclens_agent_config").replace("{{ fabriclens_collector_url }}", url);
    std::fs::write(file.path(), toml).unwrap();
    assert_eq!(agent(&args("run"), &[]).unwrap().collector.unwrap().url, url);
    assert!(
        inventory.contains(&format!("\n{}\n", url.trim_start_matches("http://").trim_end_matches(":4317"))),
        "{url}"
    );
    std::fs::write(file.path(), config(0, "fabriclens_collector_config")).unwrap();
    let listen = collector(&args("serve"), &[]).unwrap().listen.otlp_grpc;
    assert!(listen.ip().is_unspecified() && listen.port() == 4317, "{listen}");

    // The example with roles, with values in place of Ansible's expressions.
    let plays = &yaml("deploy/ansible/large.yml")[0];
    let filled = |play: usize, key: &str| {
        let text = plays[play]["roles"][0][key].as_str().unwrap();
        let text = text.replace(
            r"{{ groups['judge'] | map('regex_replace', '^(.+)$', 'http://\1:7470') | to_json }}",
            r#"["http://judge:7470"]"#,
        );
        let text = text.replace(
            r"{{ groups['ingest'] | map('regex_replace', '^(.+)$', 'http://\1:4317') | to_json }}",
            r#"["http://a:4317", "http://b:4317"]"#,
        );
        let text = text
            .replace("{{ fabriclens_engine_url }}", "http://engine:8428")
            .replace("{{ fabriclens_shared }}", "/shared");
        std::fs::write(file.path(), text).unwrap();
    };
    filled(0, "fabriclens_collector_config");
    let judge = collector(&args("serve"), &[]).unwrap();
    assert_eq!((judge.role, judge.judge.lease), (ServeRole::Judge, Some(PathBuf::from("/shared/judge.lease"))));
    filled(1, "fabriclens_collector_config");
    let ingest = collector(&args("serve"), &[]).unwrap();
    assert_eq!((ingest.role, ingest.judge.endpoints.len()), (ServeRole::Ingest, 1));
    filled(2, "fabriclens_agent_config");
    let sending = agent(&args("run"), &[]).unwrap().collector.unwrap();
    assert_eq!((sending.mode, sending.others.len()), (Mode::Spread, 1));

    let otel = &yaml("deploy/opentelemetry/config.yaml")[0];
    let pipeline = &otel["service"]["pipelines"]["metrics"];
    for part in ["receivers", "processors", "exporters"] {
        let named: Vec<&str> = pipeline[part].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
        let mut there: Vec<&str> = otel[part].as_object().unwrap().keys().map(String::as_str).collect();
        there.sort_unstable_by_key(|n| named.iter().position(|m| m == n));
        assert_eq!(named, there, "{part}");
    }
}
