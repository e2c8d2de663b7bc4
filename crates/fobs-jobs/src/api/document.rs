//! The API as OpenAPI 3.1, made from the types and functions that serve it.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use super::access::Access;
use super::{ProblemBody, events, metrics, tokens, verbs};
use crate::keeper::Change;

/// The name of the security scheme.
const SCHEME: &str = "token";

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
        metrics::metrics,
        tokens::create,
        tokens::list,
        tokens::revoke,
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
    for verb in super::verbs() {
        let item = document.paths.paths.get_mut(verb.path);
        let Some(operation) = item.and_then(|item| operation(item, verb.method.as_str())) else { continue };
        // Required of each (OpenAPI 3.1, 4.8.17); those that say nothing of their own are what was asked for.
        let usual = operation.summary.clone().unwrap_or_default();
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                response.description.clone_from(&usual);
            }
        }
        operation.responses.responses.insert("default".to_owned(), problem.clone().into());
        operation.security = match verb.access {
            Access::Token(scope) => Some(vec![SecurityRequirement::new(SCHEME, [scope.name()])]),
            Access::Anyone | Access::Own => None,
        };
    }
    let about = "A token of fobs jobs token create, over the network; over the Unix socket none is needed";
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(about)).build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme));
    document
}

fn operation<'i>(item: &'i mut PathItem, method: &str) -> Option<&'i mut Operation> {
    match method {
        "GET" => item.get.as_mut(),
        "PUT" => item.put.as_mut(),
        "POST" => item.post.as_mut(),
        "DELETE" => item.delete.as_mut(),
        _ => None,
    }
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

    /// Method and path of each verb in the table of docs/jobs.md, as the router writes them.
    fn of_the_page() -> BTreeSet<(String, String)> {
        let page = include_str!("../../../../docs/jobs.md");
        let (_, table) = page.split_once("| request | does |").expect("the table of verbs");
        let rows =
            table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ").map(|row| row.0));
        let mut found = BTreeSet::new();
        for row in rows.filter(|row| !row.contains("/page/")) {
            let mut method = "";
            for span in row.split('`').skip(1).step_by(2) {
                let (named, path) = span.split_once(' ').unwrap_or((method, span));
                method = named;
                let path = path.split('?').next().unwrap_or_default().replace("ID", "{id}");
                // Of several changes the first has the whole path.
                let is_change = !path[1..].contains('/') && method == "POST" || path.ends_with("/cancel");
                let path = if is_change { "/v1/jobs/{id}/{change}".to_owned() } else { path };
                found.insert((method.to_owned(), path));
            }
        }
        found
    }

    #[test]
    fn the_page_for_users_has_the_verbs_and_no_others() {
        let verbs = super::super::verbs();
        let served = verbs.iter().map(|verb| (verb.method.to_string(), verb.path.to_owned())).collect();
        assert_eq!(of_the_page(), served);
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
