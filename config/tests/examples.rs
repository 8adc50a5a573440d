//! Every file under `config/examples` loads, and loads again after it was printed.

#![expect(
    clippy::unwrap_used,
    reason = "a test's helper; the lint excepts test functions only"
)]

use std::path::Path;

use supercargo_config::{Checked, Loader, PluginCatalogue, Settings};

/// Calls a check with the name and text of each example.
fn each_example(check: impl Fn(&str, &str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        check(&name, &std::fs::read_to_string(&path).unwrap());
        count += 1;
    }
    assert!(count >= 12, "{count} examples");
}

#[test]
fn every_example_loads_and_survives_printing() {
    let catalogue = PluginCatalogue::in_tree();
    let loader = Loader::new(&catalogue);
    each_example(|name, text| {
        let loaded = match loader.check_str(name, text).unwrap_or_else(|errors| panic!("{errors}")) {
            Checked::Configuration(loaded) => loaded,
            Checked::Settings(settings) => {
                let again = Loader::load_settings_str("printed", &settings.to_yaml().unwrap()).unwrap();
                assert_eq!(settings, again, "{name}");
                return;
            }
        };
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{name}");
        let printed = loaded.configuration.to_yaml().unwrap();
        let again = loader
            .load_str("printed", &printed)
            .unwrap_or_else(|errors| panic!("{name}: {errors}\n{printed}"));
        assert_eq!(loaded.configuration, again.configuration, "{name}");
    });
}

#[test]
fn settings_document_beside_the_configuration_is_read() {
    let catalogue = PluginCatalogue::in_tree();
    each_example(|name, text| {
        if name == "with-settings.yaml" {
            let settings = Loader::new(&catalogue).load_str(name, text).unwrap().settings.unwrap();
            let expected = Settings {
                workers: 1,
                binding_concurrency: 200,
                max_assumed_pods: 800,
                ..Settings::default()
            };
            assert_eq!(settings, expected);
        }
    });
}
