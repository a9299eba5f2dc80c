import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import type { Readable } from 'node:stream'
import { codeOf } from '../../../lib/errors.js'
import type { ProofRequest } from './requests.js'

/** Milliseconds for one answer. */
const TIMEOUT = 10_000
const MAX_BODY = 8 * 1024 * 1024

/** An answer, or how the connection failed. */
export interface ProofAnswer {
  /** 0: no answer came. */
  readonly status: number
  /** Code of the failure, where no answer came. */
  readonly failure?: string
  /** Lower-case names; values of equal names joined. */
  readonly fields: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** Reads a body; rejects if it is longer than 8 MiB. */
export async function readWithin(stream: Readable): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of stream as AsyncIterable<Buffer>) {
    length += part.length
    if (length > MAX_BODY) throw new RangeError('the body is too long')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** Sends one request on a connection of its own. Certificates are not checked: both servers are those of the caller. */
export function sendRequest(
  server: URL,
  { method, host, target, headers = {}, bodyBytes = 0 }: ProofRequest,
  further: Readonly<Record<string, string>>
): Promise<ProofAnswer> {
  const send = server.protocol === 'https:' ? httpsRequest : httpRequest
  return new Promise((resolve) => {
    const length =
      bodyBytes > 0 ? { 'content-length': String(bodyBytes), 'content-type': 'application/octet-stream' } : {}
    const sent = send({
      host: server.hostname.replace(/^\[|\]$/g, ''),
      port: server.port,
      ...(server.protocol === 'https:'
        ? { rejectUnauthorized: false, ...(isIP(host) === 0 ? { servername: host } : {}) }
        : {}),
      method,
      path: target,
      headers: { host, 'user-agent': 'sluice-import', accept: '*/*', ...headers, ...length, ...further },
      agent: false,
      signal: AbortSignal.timeout(TIMEOUT)
    })
    const failed = (error: unknown) =>
      resolve({ status: 0, failure: codeOf(error) ?? 'failed', fields: {}, body: Buffer.alloc(0) })
    sent.on('response', (response) => {
      readWithin(response).then(
        (body) => resolve({ status: response.statusCode ?? 0, fields: fieldsOf(response), body }),
        failed
      )
    })
    sent.on('upgrade', (response, socket) => {
      socket.destroy()
      resolve({ status: response.statusCode ?? 0, fields: fieldsOf(response), body: Buffer.alloc(0) })
    })
    sent.on('error', failed)
    sent.end(bodyBytes > 0 ? Buffer.alloc(bodyBytes, 'x') : undefined)
  })
}

function fieldsOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const fields: Record<string, string> = {}
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] as string).toLowerCase()
    const value = rawHeaders[index + 1] as string
    fields[name] = fields[name] === undefined ? value : `${fields[name]}, ${value}`
  }
  return fields
}
