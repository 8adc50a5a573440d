//! Plugins of one's own, as seen from the command line.

use crate::ids::Symbol;

use super::*;

struct Mine;

impl Plugin for Mine {
    fn name(&self) -> Symbol {
        Symbol::new("Mine")
    }
}

fn with(names: &[&str]) -> Command {
    names.iter().fold(Command::new(), |command, name| {
        command.with_plugin(name, &[ExtensionPoint::Filter], |_| Ok(Arc::new(Mine)))
    })
}

fn follow(command: &Command, args: &[&str]) -> Result<Action, String> {
    let args = ["scheduler"].iter().chain(args).map(OsString::from);
    command.action(args).map_err(|failure| failure.message)
}

#[test]
fn a_configuration_may_enable_a_plugin_at_its_points_alone() {
    let folder = tempfile::tempdir().unwrap();
    let check = |command: &Command, point: &str| {
        let path = folder.path().join("config.yaml");
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
             - plugins: {{{point}: {{enabled: [{{name: Mine}}]}}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        follow(command, &["--config", path.to_str().unwrap()])
    };
    let command = with(&["Mine"]);
    assert!(matches!(check(&command, "filter"), Ok(Action::Run(_))));
    assert!(matches!(check(&command, "multiPoint"), Ok(Action::Run(_))));
    let refused = check(&command, "score").unwrap_err();
    assert!(refused.contains("Mine"), "{refused}");
    let refused = check(&Command::new(), "filter").unwrap_err();
    assert!(refused.contains("Mine"), "{refused}");
}

#[test]
fn a_taken_name_is_an_error_whatever_is_asked() {
    for names in [["NodeName", "Mine"], ["Mine", "NodeName"]] {
        let refused = follow(&with(&names), &["version"]).unwrap_err();
        assert_eq!(refused, "a plugin named \"NodeName\" is already registered");
    }
    let refused = follow(&with(&["Mine", "Mine"]), &["--help"]).unwrap_err();
    assert_eq!(refused, "a plugin named \"Mine\" is already registered");
}
