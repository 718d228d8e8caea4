//! The gateway: the pipeline that every request takes, one file a stage (CONTRACT section 3).
//!
//! | stage | file |
//! |---|---|
//! | before the body is read | [`admit`], [`hosts`], [`cors`], [`resource_metadata`] |
//! | inspect | [`inspect`], [`message`], [`era`] |
//! | policy | [`router`] |
//! | authenticate, authorize | [`authenticate`], [`authorize`] |
//! | claim | [`key`], [`destination`], [`claim`], [`holders`] |
//! | dispatch | [`outbound`], [`propagate`], [`native`], [`dispatch`] (without a key), [`execute`] (with one) |
//! | settle | [`settle`] |
//! | audit | [`audit`], [`trace`] |
//! | answers | [`error`], [`reply`], [`relay`], [`telling`], [`receipts`] |

pub mod admit;
pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod claim;
pub mod cors;
pub mod destination;
pub mod dispatch;
pub mod drain;
pub mod era;
pub mod error;
pub mod execute;
pub mod holders;
pub mod hosts;
pub mod inspect;
pub mod key;
pub mod message;
pub mod native;
pub mod outbound;
pub mod pipeline;
pub mod propagate;
pub mod receipts;
pub mod relay;
pub mod reply;
pub mod resource_metadata;
pub mod router;
pub mod server;
pub mod settle;
pub mod state;
pub mod telling;
pub mod tls;
pub mod trace;
