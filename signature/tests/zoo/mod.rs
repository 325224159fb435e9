//! A type for everything that serde and schemars can express, shared by the tests.
//!
//! A new kind of type is a type in the file of its concept and a line in [`tour`]. Every test
//! that visits the zoo then covers it.
#![allow(
    dead_code,
    unused_imports,
    reason = "the types exist for their schemas, and the fuzzer uses only some of them"
)]

mod attributes;
mod bounds;
mod dates;
mod enums;
pub(crate) mod generate;
mod lists;
mod maps;
pub(crate) mod mistakes;
mod options;
mod plain;
mod recursion;
pub(crate) mod seed;
mod unions;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolwright_signature::Signature;

pub(crate) use attributes::{
    Aliased, Closed, ClosedOutside, Converted, Flat, FlatAny, FlatEvent, FlatMap, FlatOption,
    FlatReply, FlatTwice, FlatUnion, FlatUnionBeside, Remote, Renamed, Skipped, Transparent,
    TwoWays, With,
};
pub(crate) use bounds::{Addresses, Bounded, ClassName, MoreBounds};
pub(crate) use dates::{Chrono, Identified, Jiff, Price, StandardTimes};
pub(crate) use enums::{HalfHidden, LookAlike, Priority, Rated, Single, Stars, Status};
pub(crate) use lists::{Lists, NoneOfThem, Sequences, Sets};
pub(crate) use maps::{Anything, Coded, DeepMaps, FreeForm, Maps, Pairs};
pub(crate) use options::{AllDefaulted, Defaulted, Optional, OptionalKinds, Patch, Spoken};
pub(crate) use plain::{
    Documented, Empty, Filters, Floats, Huge, Integers, LikeInput, LikeResult, LikeTuple, Name,
    Nested, NonZeros, OddNames, Page, Pages, Ping, Place, Plain, Pointers, Reserved, Spans, Texts,
    Tuple, Tuples, Wrapping,
};
pub(crate) use recursion::{Entry, Folder, Forest, Logic, Menu, Node, Term, Tree};
pub(crate) use unions::{
    Action, Beside, Command, Drawing, Event, Figure, Flexible, Inside, Loose, MapOrPairs,
    MaybeText, NestedUnion, Numeric, OneOrMany, Outcome, Overlapping, PartlyTagged, Point, Reply,
    Scalar, Shape, WithOther,
};

/// A type that may be an input and an output.
pub(crate) trait Specimen:
    Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> Specimen for T {}

/// A test that visits every type.
pub(crate) trait Visitor {
    fn visit<T: Specimen>(&mut self, case: &str);
}

/// Visits every type, with its name.
pub(crate) fn tour(visitor: &mut impl Visitor) {
    plain_tour(visitor);
    union_tour(visitor);
    collection_tour(visitor);
    attribute_tour(visitor);
}

pub(crate) fn plain_tour(visitor: &mut impl Visitor) {
    visitor.visit::<String>("text");
    visitor.visit::<i64>("integer");
    visitor.visit::<f64>("float");
    visitor.visit::<serde_json::Number>("number");
    visitor.visit::<bool>("boolean");
    visitor.visit::<Plain>("plain");
    visitor.visit::<Documented>("documented");
    visitor.visit::<Nested>("nested_structs");
    visitor.visit::<Integers>("integers");
    visitor.visit::<Huge>("huge_integers");
    visitor.visit::<Floats>("floats");
    visitor.visit::<NonZeros>("integers_that_are_not_zero");
    visitor.visit::<Texts>("texts");
    visitor.visit::<Pointers>("pointers");
    visitor.visit::<Spans>("ranges");
    visitor.visit::<Ping>("unit_struct");
    visitor.visit::<()>("unit");
    visitor.visit::<Empty>("empty_struct");
    visitor.visit::<Name>("newtype_of_text");
    visitor.visit::<Wrapping>("newtype_of_a_struct");
    visitor.visit::<Tuple>("tuple");
    visitor.visit::<Tuples>("tuples");
    visitor.visit::<Page<Filters>>("generic_struct");
    visitor.visit::<Pages>("generic_structs_of_one_name");
    visitor.visit::<Reserved>("names_that_lowering_gives");
    visitor.visit::<LikeInput>("like_a_wrapped_input");
    visitor.visit::<LikeResult>("like_a_wrapped_output");
    visitor.visit::<LikeTuple>("like_a_lowered_tuple");
    visitor.visit::<OddNames>("odd_names");
    visitor.visit::<Optional>("optional");
    visitor.visit::<OptionalKinds>("optional_of_each_kind");
    visitor.visit::<Option<u8>>("option");
    visitor.visit::<Option<Place>>("option_of_a_struct");
    visitor.visit::<Patch>("absent_null_and_value");
    visitor.visit::<Spoken>("null_must_be_said");
    visitor.visit::<Defaulted>("defaulted");
    visitor.visit::<AllDefaulted>("defaulted_as_a_whole");
    visitor.visit::<Bounded>("bounds");
    visitor.visit::<MoreBounds>("more_bounds");
    visitor.visit::<Addresses>("addresses");
    visitor.visit::<ClassName>("class_name");
    visitor.visit::<Chrono>("dates_of_chrono");
    visitor.visit::<Jiff>("dates_of_jiff");
    visitor.visit::<StandardTimes>("durations_and_times");
    visitor.visit::<Identified>("identifiers");
    visitor.visit::<Price>("decimals");
}

pub(crate) fn union_tour(visitor: &mut impl Visitor) {
    visitor.visit::<Status>("enum_with_wire_names");
    visitor.visit::<Priority>("enum_with_documented_values");
    visitor.visit::<LookAlike>("enum_of_look_alikes");
    visitor.visit::<Single>("enum_of_one");
    visitor.visit::<Rated>("enum_of_numbers");
    visitor.visit::<HalfHidden>("enum_half_hidden");
    visitor.visit::<Shape>("union_with_a_tag_inside");
    visitor.visit::<Event>("union_with_a_tag_outside");
    visitor.visit::<Reply>("union_with_a_tag_beside");
    visitor.visit::<Loose>("union_without_a_tag");
    visitor.visit::<Inside>("closed_union_with_a_tag_inside");
    visitor.visit::<Command>("union_of_every_variant");
    visitor.visit::<Beside>("closed_union_with_a_tag_beside");
    visitor.visit::<Figure>("union_of_structs");
    visitor.visit::<Drawing>("unions_of_structs_in_fields");
    visitor.visit::<Action>("union_of_enums");
    visitor.visit::<Flexible>("unions_in_fields");
    visitor.visit::<Scalar>("union_of_scalars");
    visitor.visit::<Numeric>("union_of_numbers");
    visitor.visit::<Overlapping>("union_that_overlaps");
    visitor.visit::<OneOrMany>("union_of_one_and_many");
    visitor.visit::<MapOrPairs>("union_of_a_map_and_pairs");
    visitor.visit::<NestedUnion>("union_of_unions");
    visitor.visit::<WithOther>("union_with_other");
    visitor.visit::<PartlyTagged>("union_partly_tagged");
    visitor.visit::<MaybeText>("union_with_null");
    visitor.visit::<Outcome>("result");
    visitor.visit::<Point>("struct_with_a_tag");
    visitor.visit::<Node>("recursive_struct");
    visitor.visit::<Tree>("recursive_union");
    visitor.visit::<Forest>("recursion_below_the_root");
    visitor.visit::<Folder>("mutual_recursion");
    visitor.visit::<Menu>("recursive_map");
    visitor.visit::<Term>("recursive_union_without_a_tag");
    visitor.visit::<Logic>("recursive_union_with_a_tag_beside");
}

pub(crate) fn collection_tour(visitor: &mut impl Visitor) {
    visitor.visit::<Lists>("lists");
    visitor.visit::<Vec<Place>>("list_of_structs");
    visitor.visit::<Sequences>("sequences");
    visitor.visit::<NoneOfThem>("list_of_none");
    visitor.visit::<Sets>("sets");
    visitor.visit::<BTreeSet<Status>>("set_of_enums");
    visitor.visit::<BTreeMap<String, i64>>("map_with_text_keys");
    visitor.visit::<BTreeMap<u32, String>>("map_with_number_keys");
    visitor.visit::<BTreeMap<Status, u8>>("map_with_enum_keys");
    visitor.visit::<BTreeMap<char, bool>>("map_with_letter_keys");
    visitor.visit::<HashMap<String, BTreeMap<String, Place>>>("map_of_maps");
    visitor.visit::<BTreeMap<String, Vec<u8>>>("map_of_lists");
    visitor.visit::<BTreeMap<String, Scalar>>("map_of_scalars");
    visitor.visit::<Maps>("maps");
    visitor.visit::<DeepMaps>("maps_of_each_kind");
    visitor.visit::<Pairs>("map_beside_pairs");
    visitor.visit::<Coded>("map_with_keys_of_a_pattern");
    visitor.visit::<BTreeMap<LookAlike, u8>>("map_with_look_alike_keys");
    visitor.visit::<FreeForm>("map_of_any_value");
    visitor.visit::<Anything>("any_value");
}

pub(crate) fn attribute_tour(visitor: &mut impl Visitor) {
    visitor.visit::<TwoWays>("read_and_written_differ");
    visitor.visit::<Flat>("flattened_struct");
    visitor.visit::<FlatTwice>("flattened_structs");
    visitor.visit::<FlatUnion>("flattened_union");
    visitor.visit::<FlatUnionBeside>("flattened_union_beside_fields");
    visitor.visit::<FlatEvent>("flattened_union_with_a_tag_outside");
    visitor.visit::<FlatReply>("flattened_union_with_a_tag_beside");
    visitor.visit::<FlatMap>("flattened_map");
    visitor.visit::<FlatAny>("flattened_map_of_any_value");
    visitor.visit::<FlatOption>("flattened_option");
    visitor.visit::<Closed>("unknown_fields_denied");
    visitor.visit::<ClosedOutside>("unknown_fields_denied_outside");
    visitor.visit::<Renamed>("renamed_fields");
    visitor.visit::<Aliased>("fields_with_aliases");
    visitor.visit::<Skipped>("skipped_fields");
    visitor.visit::<Transparent>("transparent");
    visitor.visit::<With>("written_by_functions");
    visitor.visit::<Remote>("remote");
    visitor.visit::<Converted>("converted");
    visitor.visit::<seed::Analyze>("seed_analyze");
    visitor.visit::<seed::UpdateTask>("seed_update_task");
    visitor.visit::<seed::CreateTask>("seed_create_task");
    visitor.visit::<seed::Configure>("seed_configure");
    visitor.visit::<seed::Process>("seed_process");
}

/// Takes a specimen in a field and gives it back at the root.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "")]
pub(crate) struct Echo<T: Specimen> {
    given: T,
}

impl<T: Specimen> Signature for Echo<T> {
    type Output = T;

    fn name() -> Cow<'static, str> {
        "give_back".into()
    }
}

/// Takes a specimen as it is.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "", transparent)]
pub(crate) struct Bare<T: Specimen>(T);

impl<T: Specimen> Signature for Bare<T> {
    type Output = T;

    fn name() -> Cow<'static, str> {
        "take".into()
    }
}
