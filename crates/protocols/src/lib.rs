//! PIR protocols as client and server halves over bytes, and keyword look-up over any of them.
