/** An HTTP/1.1 connection, as its end sees it. */
interface Idling {
  /** No request is under way. */
  readonly idle: boolean
  /** FIN; what still comes is thrown away until the client ends too. */
  linger(): void
}

/**
 * Ends a connection that is idle after `grace` milliseconds. A request that lies there by then and was not read yet is
 * read first. A client that sent one meanwhile gets FIN and time for its own end, no RST (RFC 9112 9.6).
 */
export function endIdle(connection: Idling, grace: number): void {
  if (grace === 0) setImmediate(end, connection)
  else setTimeout(look, grace, connection).unref()
}

/** Timers run before the event loop reads, immediates behind it. */
function look(connection: Idling): void {
  setImmediate(end, connection)
}

function end(connection: Idling): void {
  if (connection.idle) connection.linger()
}
