import { module } from '../objects.js'

/** Turns WebSockets into plain connections to the backend. */
export function websocketTcpConverterModule() {
  return module(
    'Turns WebSockets into TCP connections to the backend: what binary messages hold is sent there, and what comes from there is sent as binary messages. Other requests get 426.',
    {}
  )
}
