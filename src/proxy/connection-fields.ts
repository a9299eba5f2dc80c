import type { ConnectionRecord } from './connection-log.js'
import { type FieldReaders, FLOW_FIELDS, timeText } from './flow-fields.js'

/** The fields of `tcp_connection_closed.v0`. */
export const CONNECTION_FIELDS: FieldReaders<ConnectionRecord> = {
  ...FLOW_FIELDS,
  'conn.bytes_in': ({ connection }) => connection.bytesIn,
  'conn.bytes_out': ({ connection }) => connection.bytesOut,
  'conn.end_ts': ({ connection, duration }) => timeText(connection.startedAt + duration),
  'edge.id': ({ edge }) => edge,
  'error.code': ({ code }) => code ?? null
}
