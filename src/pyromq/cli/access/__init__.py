"""Commands about who may do what: users, their policies, and files of both."""
