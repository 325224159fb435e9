//! The expansions, as a person can read them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse_quote;

fn shown(expansion: TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(expansion).unwrap())
}

#[test]
fn a_function_expands_to_a_signature_and_a_module() {
    let item = quote! {
        /// Book a table.
        ///
        /// # Errors
        ///
        /// For people.
        pub async fn book_table(
            /// Name of the guest.
            guest: &str,
            /// Number of seats.
            #[default = 2]
            #[schemars(range(min = 1))]
            seats: u8,
            #[context] db: &Db,
            cx: &Context,
        ) -> Result<Booking> {
            db.book(guest, seats, cx).await
        }
    };
    let arguments = quote!(effect = Irreversible, render = Booking::text, derive(Clone));
    let expansion = crate::function::expand(arguments, item, parse_quote!(::toolwright));
    insta::assert_snapshot!(shown(expansion));
}

#[test]
fn a_block_expands_to_its_methods_and_a_list() {
    let item = quote! {
        impl Notes {
            /// Count the notes.
            #[tool(effect = Read)]
            pub fn count(&self) -> usize {
                self.0.len()
            }

            #[cfg(unix)]
            #[tool(name = "read")]
            async fn read_note(&self, title: Option<&str>) -> Option<String> {
                self.find(title)
            }

            fn find(&self, title: Option<&str>) -> Option<String> {
                self.0.get(title?).cloned()
            }
        }
    };
    let expansion = crate::toolset::expand(quote!(), item, parse_quote!(::toolwright_module));
    insta::assert_snapshot!(shown(expansion));
}

#[test]
fn a_type_gets_its_derives() {
    let item = quote! {
        /// A unit.
        #[serde(rename_all = "lowercase")]
        pub enum Unit {
            Celsius,
        }
    };
    let expansion = crate::data::expand(quote!(crate = tw), item, parse_quote!(::toolwright));
    insta::assert_snapshot!(shown(expansion));
}

#[test]
fn names_are_converted() {
    for (function, ty) in
        [("get_weather", "GetWeather"), ("r#type", "Type"), ("get_2d", "Get2d"), ("_a__b", "AB")]
    {
        assert_eq!(crate::tool::camel_case(function), ty);
    }
    for (ty, prefix) in [
        ("Memory", "memory"),
        ("NoteBook", "note_book"),
        ("HTTPClient", "http_client"),
        ("HttpClient", "http_client"),
        ("GitHub", "git_hub"),
        ("Md5Sum", "md5_sum"),
        ("My_Notes", "my_notes"),
        ("Db2", "db2"),
    ] {
        assert_eq!(crate::tool::snake_case(ty), prefix);
    }
}
