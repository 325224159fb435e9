//! The name that serde writes for a variant of an enum.

use std::fmt::Error;

use serde::ser::{Impossible, Serialize, Serializer};

/// Returns the name in JSON of an enum's variant without fields.
///
/// The attribute `#[data]` calls it only for enums that serde writes as such a name. For any other
/// value the text is empty.
#[must_use]
pub fn wire_name<T: Serialize>(value: &T) -> &'static str {
    value.serialize(Name).unwrap_or_default()
}

/// A serializer that takes only variants without fields.
struct Name;

type Never = Impossible<&'static str, Error>;

/// The methods of a serializer for values that have no name.
macro_rules! refuse {
    ($($method:ident($($ty:ty),*);)*) => {
        $(fn $method(self, $(_: $ty),*) -> Result<Self::Ok, Error> {
            Err(Error)
        })*
    };
}

impl Serializer for Name {
    type Ok = &'static str;
    type Error = Error;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<&'static str, Error> {
        Ok(variant)
    }

    refuse! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
    }

    fn serialize_some<T: ?Sized + Serialize>(self, _: &T) -> Result<Self::Ok, Error> {
        Err(Error)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Error> {
        Err(Error)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Error> {
        Err(Error)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Never, Error> {
        Err(Error)
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, Error> {
        Err(Error)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, Error> {
        Err(Error)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Error> {
        Err(Error)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Never, Error> {
        Err(Error)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never, Error> {
        Err(Error)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Error> {
        Err(Error)
    }
}
