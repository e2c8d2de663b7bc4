//! The API as OpenAPI 3.1, made from the types and functions that serve it.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};

use super::{ProblemBody, events, verbs};
use crate::keeper::Change;

/// What is the same for all verbs is added in [`document`].
#[derive(OpenApi)]
#[openapi(
    info(
        title = "FOBS jobs",
        description = "Transfers that are handed in: a keeper runs them, tries them again and says what became of them."
    ),
    paths(
        verbs::about,
        verbs::list,
        verbs::submit,
        verbs::show,
        verbs::log,
        verbs::change,
        verbs::limits,
        verbs::set_limits,
        verbs::clean,
        events::events,
        openapi
    ),
    components(schemas(Change, ProblemBody))
)]
struct Documented;

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "keeper",
    responses((status = 200, description = "OpenAPI 3.1", body = Object))
)]
pub(super) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}

fn document() -> utoipa::openapi::OpenApi {
    let mut document = Documented::openapi();
    let schema = Ref::from_schema_name("ProblemBody");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let problem = ResponseBuilder::new().description("What failed, why, and what to do");
    let problem = problem.content("application/problem+json", content).build();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), problem.clone().into());
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::job::{Phase, Spec};
    use serde_json::Value;

    fn as_json() -> Value {
        serde_json::to_value(document()).expect("JSON")
    }

    #[test]
    fn the_document_has_the_routes_of_the_router_and_no_others() {
        let served: BTreeSet<(String, String)> = super::super::verbs()
            .iter()
            .map(|verb| (verb.method.to_string(), verb.path.to_owned()))
            .collect();
        let document = as_json();
        let paths = document["paths"].as_object().expect("paths");
        let documented: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().expect("methods").keys();
                methods.map(|method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        assert_eq!(documented, served);
        assert_eq!(document["openapi"], "3.1.0");
    }

    #[test]
    fn every_schema_that_is_named_is_there() {
        let document = as_json();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let named = text.split("#/components/schemas/").skip(1);
        let named: BTreeSet<&str> = named.map(|rest| rest.split('"').next().expect("a name")).collect();
        for name in &named {
            assert!(schemas.contains_key(*name), "{name}");
        }
        assert!(named.contains("JobView") && named.contains("Spec"), "{named:?}");
    }

    #[test]
    fn the_schema_of_a_job_has_its_members() {
        let document = as_json();
        let schema = &document["components"]["schemas"]["Spec"];
        let spec = serde_json::to_value(Spec::new(vec![], "/".into())).expect("JSON");
        let members = |value: &Value| value.as_object().expect("members").keys().cloned().collect::<Vec<_>>();
        assert_eq!(members(&schema["properties"]), members(&spec));
        let required = schema["required"].as_array().expect("a list");
        assert_eq!(required, &["words", "directory"]);
        let phases = document["components"]["schemas"]["Phase"]["enum"].as_array().expect("a list").len();
        assert_eq!(phases, Phase::ALL.len());
    }
}
