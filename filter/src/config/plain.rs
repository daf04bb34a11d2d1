//! What objects are made of: numbers, texts, lists, and what may be left out.

use alloc::string::String;
use alloc::vec::Vec;

use super::error::Fault;
use super::json::{Value, quoted};
use super::object::{ANY, Bounds, Readable, Wire, Written, inside, unfit, whole};
use crate::pieces::{Piece as _, text};

/// Hands over the items of a list.
fn items(value: &Value<'_>, take: &mut dyn FnMut(&Value<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
    let Value::List(items) = value else { return Err(unfit(value, "a list")) };
    for (index, item) in items.iter().enumerate() {
        inside(take(item), &text!["[", index, "]"])?;
    }
    Ok(())
}

impl Wire for bool {
    const REQUIRED: bool = false;

    fn unwritten() -> Self {
        false
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "boolean" })
    }
}

impl Wire for u16 {
    const REQUIRED: bool = true;

    fn unwritten() -> Self {
        0
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        super::schema::whole(0..=Self::MAX.into())
    }
}

impl Wire for u64 {
    const REQUIRED: bool = true;

    fn unwritten() -> Self {
        0
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "integer", "format": "int64", "minimum": 0 })
    }
}

impl Wire for String {
    const REQUIRED: bool = true;

    fn unwritten() -> Self {
        Self::new()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string" })
    }
}

impl<T: Wire> Wire for Vec<T> {
    const REQUIRED: bool = false;

    fn unwritten() -> Self {
        Self::new()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "array", "items": T::schema() })
    }
}

impl Readable for bool {
    fn read(&mut self, value: &Value<'_>, _: &Bounds) -> Result<(), Fault> {
        let Value::Bool(read) = value else { return Err(unfit(value, "true or false")) };
        *self = *read;
        Ok(())
    }
}

impl Readable for u16 {
    fn read(&mut self, value: &Value<'_>, _: &Bounds) -> Result<(), Fault> {
        *self = whole(value, &(0, Self::MAX.into()))? as Self;
        Ok(())
    }
}

impl Readable for u64 {
    fn read(&mut self, value: &Value<'_>, bounds: &Bounds) -> Result<(), Fault> {
        *self = whole(value, bounds)?;
        Ok(())
    }
}

impl Readable for String {
    fn read(&mut self, value: &Value<'_>, _: &Bounds) -> Result<(), Fault> {
        let Value::Text(text) = value else { return Err(unfit(value, "a text in quotes")) };
        *self = text.as_ref().into();
        Ok(())
    }
}

impl<T: Wire> Readable for Vec<T> {
    fn read(&mut self, value: &Value<'_>, _: &Bounds) -> Result<(), Fault> {
        self.clear();
        items(value, &mut |item| {
            self.push(T::unwritten());
            self.last_mut().map_or(Ok(()), |last| last.read(item, &ANY))
        })
    }
}

impl<T: Wire> Readable for Option<T> {
    fn read(&mut self, value: &Value<'_>, bounds: &Bounds) -> Result<(), Fault> {
        if matches!(value, Value::Null) {
            *self = None;
            return Ok(());
        }
        self.insert(T::unwritten()).read(value, bounds)
    }
}

impl Written for bool {
    fn write(&self, text: &mut String) {
        if *self { "true" } else { "false" }.add(text);
    }
}

impl Written for u16 {
    fn write(&self, text: &mut String) {
        self.add(text);
    }
}

impl Written for u64 {
    fn write(&self, text: &mut String) {
        (*self).min(ANY.1).add(text); // more than that no reader takes
    }
}

impl Written for String {
    fn write(&self, text: &mut String) {
        quoted(self, text);
    }
}

impl<T: Written> Written for Vec<T> {
    fn write(&self, text: &mut String) {
        text.push('[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 { ", " } else { "" }.add(text);
            item.write(text);
        }
        text.push(']');
    }
}

impl<T: Written> Written for Option<T> {
    fn write(&self, text: &mut String) {
        match self {
            Some(value) => value.write(text),
            None => "null".add(text),
        }
    }

    fn says_nothing(&self) -> bool {
        self.is_none()
    }
}

/// Something that may be left out; `null` says the same.
impl<T: Wire> Wire for Option<T> {
    const REQUIRED: bool = false;

    fn unwritten() -> Self {
        None
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        T::schema()
    }
}
