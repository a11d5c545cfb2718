/*
 * What libevent's HTTP server refuses by itself: requests that it cannot read, and that are too long, before any of our
 * code sees them. It answers with a page of HTML; the API's answers are problem documents, and so these become ones.
 */
#ifndef SLUICED_CONTROL_REFUSAL_H
#define SLUICED_CONTROL_REFUSAL_H

struct bufferevent;
struct event_base;

/* A connection's, for its server to take. NULL without memory. */
struct bufferevent *refusal_bufferevent(struct event_base *base);

#endif
