"""Filters by message properties: SQL92 as RocketMQ's selector language has it, parsed and compiled once. Pure.

    tokens       text to tokens, one at a time: what stands behind a complete expression is never looked at, as in Java
    tree         what an expression is made of
    parser       tokens to a tree, with Java's checks of operands and our bounds
    conversions  texts to numbers as Java's classes read them
    comparing    one comparison to a function
    sql92        the front door: `compile_sql(text)`
    bloom        the bit positions that Java keeps beside a group's filter

The broker asks `sql92` at registration and for each message of a filtered pull.
"""
