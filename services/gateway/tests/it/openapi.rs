//! The committed OpenAPI document is the one that the code makes.

use std::fs;

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/openapi/gateway.json"
);

#[test]
fn the_committed_document_is_fresh() {
    let fresh = serde_json::to_string_pretty(&kazma_gateway::openapi()).unwrap() + "\n";
    if std::env::var_os("RENEW").is_some() {
        fs::create_dir_all(std::path::Path::new(PATH).parent().unwrap()).unwrap();
        fs::write(PATH, &fresh).unwrap();
    }
    let committed = fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        committed == fresh,
        "docs/openapi/gateway.json is not what the code makes: renew it with\nRENEW=1 cargo nextest run -p kazma-gateway the_committed_document_is_fresh"
    );
}

#[tokio::test]
async fn the_served_document_is_the_same() {
    let house = crate::house::House::open().await;
    let served = house
        .get("/api/openapi.json", &crate::house::Show::Nothing)
        .await
        .json();
    assert_eq!(
        served,
        serde_json::to_value(kazma_gateway::openapi()).unwrap()
    );
}
