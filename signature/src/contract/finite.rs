//! The search for a float that JSON cannot express. `serde_json` writes it as `null`, which also stands for
//! an empty `Option`.

use std::fmt::{self, Display};

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Returns the path and the value of the first float of a value that is NaN or infinite.
pub(super) fn not_finite<T: Serialize + ?Sized>(value: &T) -> Option<(String, f64)> {
    match value.serialize(Finite) {
        Err(NotFinite { path, float: Some(float) }) => Some((format!("${path}"), float)),
        // `serde_json` reports an error of the value itself.
        _ => None,
    }
}

/// A serializer that writes nothing and fails at a float that is not finite.
#[derive(Clone, Copy)]
struct Finite;

#[derive(Debug)]
struct NotFinite {
    path: String,
    /// `None` for an error of the value itself.
    float: Option<f64>,
}

impl NotFinite {
    fn below(self, step: impl Display) -> Self {
        Self { path: format!("{step}{}", self.path), ..self }
    }
}

impl Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a float is not finite")
    }
}

impl std::error::Error for NotFinite {}

impl serde::ser::Error for NotFinite {
    fn custom<T: Display>(_: T) -> Self {
        Self { path: String::new(), float: None }
    }
}

/// A list or a map, with the index of the next item or the key of the next value.
#[derive(Default)]
struct Inside {
    /// The name of the variant that it is in.
    variant: Option<&'static str>,
    index: usize,
    key: String,
}

impl Inside {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        let index = self.index;
        self.index += 1;
        let placed = value.serialize(Finite);
        self.place(placed.map_err(|error| error.below(format_args!("[{index}]"))))
    }

    fn field<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), NotFinite> {
        self.place(field(key, value))
    }

    /// Adds the variant to the path of an error.
    fn place(&self, checked: Result<(), NotFinite>) -> Result<(), NotFinite> {
        checked.map_err(|error| match self.variant {
            Some(variant) => error.below(format_args!(".{variant}")),
            None => error,
        })
    }
}

fn field<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<(), NotFinite> {
    value.serialize(Finite).map_err(|error| error.below(format_args!(".{key}")))
}

macro_rules! nothing {
    ($($method:ident($kind:ty)),* $(,)?) => {
        $(fn $method(self, _: $kind) -> Result<(), NotFinite> {
            Ok(())
        })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Inside;
    type SerializeTuple = Inside;
    type SerializeTupleStruct = Inside;
    type SerializeTupleVariant = Inside;
    type SerializeMap = Inside;
    type SerializeStruct = Inside;
    type SerializeStructVariant = Inside;

    nothing!(
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_unit_struct(&'static str),
    );

    fn serialize_f32(self, value: f32) -> Result<(), NotFinite> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), NotFinite> {
        match value.is_finite() {
            true => Ok(()),
            false => Err(NotFinite { path: String::new(), float: Some(value) }),
        }
    }

    fn serialize_none(self) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<(), NotFinite> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        field(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside, NotFinite> {
        Ok(Inside::default())
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside, NotFinite> {
        Ok(Inside::default())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside, NotFinite> {
        Ok(Inside::default())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inside, NotFinite> {
        Ok(Inside { variant: Some(variant), ..Inside::default() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside, NotFinite> {
        Ok(Inside::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside, NotFinite> {
        Ok(Inside::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inside, NotFinite> {
        Ok(Inside { variant: Some(variant), ..Inside::default() })
    }
}

macro_rules! list {
    ($($kind:ident::$method:ident),*) => {
        $(impl $kind for Inside {
            type Ok = ();
            type Error = NotFinite;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
                self.item(value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

list!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

impl SerializeMap for Inside {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotFinite> {
        let key = serde_json::to_value(key).unwrap_or_default();
        self.key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        self.field(&self.key, value)
    }

    fn end(self) -> Result<(), NotFinite> {
        Ok(())
    }
}

macro_rules! fields {
    ($($kind:ident),*) => {
        $(impl $kind for Inside {
            type Ok = ();
            type Error = NotFinite;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), NotFinite> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);
