//! JSON patch, RFC 6902.
//!
//! Does not: accept more than a bounded number of operations.

use serde_json::Value;

use crate::error::ApiError;

/// As upstream's limit on operations in one document.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a document to an object.
pub(super) fn apply(object: &mut Value, document: &Value) -> Result<(), ApiError> {
    let Value::Array(operations) = document else {
        return Err(ApiError::bad_request("a JSON patch must be an array of operations"));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            "the JSON patch has too many operations",
        ));
    }
    for operation in operations {
        apply_one(object, operation).map_err(|why| {
            ApiError::new(
                422,
                "Invalid",
                format!("the server rejected our request due to an error in our request: {why}"),
            )
        })?;
    }
    Ok(())
}

fn apply_one(object: &mut Value, operation: &Value) -> Result<(), String> {
    let field = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = pointer(field("path").ok_or("an operation has no path")?)?;
    let value = || {
        operation
            .get("value")
            .cloned()
            .ok_or_else(|| "an operation has no value".to_owned())
    };
    let from = || pointer(field("from").ok_or("an operation has no from")?);
    match field("op").unwrap_or_default() {
        "add" => add(object, &path, value()?),
        "remove" => remove(object, &path).map(|_| ()),
        "replace" => {
            let slot = find(object, &path).ok_or_else(|| missing(&path))?;
            *slot = value()?;
            Ok(())
        }
        "move" => {
            let moved = remove(object, &from()?)?;
            add(object, &path, moved)
        }
        "copy" => {
            let from = from()?;
            let copied = find(object, &from).ok_or_else(|| missing(&from))?.clone();
            add(object, &path, copied)
        }
        "test" => {
            let expected = value()?;
            // A missing member equals null, as in the library that upstream uses.
            let actual = find(object, &path).cloned().unwrap_or_default();
            if actual == expected {
                Ok(())
            } else {
                Err(format!("testing value {} failed", display(&path)))
            }
        }
        other => Err(format!("unknown operation {other:?}")),
    }
}

fn pointer(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rest = text
        .strip_prefix('/')
        .ok_or_else(|| format!("path {text:?} does not start with a slash"))?;
    Ok(rest
        .split('/')
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect())
}

fn display(path: &[String]) -> String {
    path.iter().map(|part| format!("/{part}")).collect()
}

fn missing(path: &[String]) -> String {
    format!("path {} does not exist", display(path))
}

fn find<'a>(object: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(object, |value, part| match value {
        Value::Object(map) => map.get_mut(part),
        Value::Array(list) => list.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })
}

fn add(object: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, parents)) = path.split_last() else {
        *object = value;
        return Ok(());
    };
    match find(object, parents).ok_or_else(|| missing(parents))? {
        Value::Object(map) => {
            map.insert(last.clone(), value);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            let at = last
                .parse::<usize>()
                .ok()
                .filter(|at| *at <= list.len())
                .ok_or_else(|| missing(path))?;
            list.insert(at, value);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(object: &mut Value, path: &[String]) -> Result<Value, String> {
    let (last, parents) = path.split_last().ok_or("the whole object cannot be removed")?;
    match find(object, parents).ok_or_else(|| missing(parents))? {
        Value::Object(map) => map.remove(last).ok_or_else(|| missing(path)),
        Value::Array(list) => {
            let at = last
                .parse::<usize>()
                .ok()
                .filter(|at| *at < list.len())
                .ok_or_else(|| missing(path))?;
            Ok(list.remove(at))
        }
        _ => Err(missing(path)),
    }
}
