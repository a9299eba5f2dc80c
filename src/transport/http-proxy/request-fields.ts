import type { ClientRequest } from 'node:http'
import type { Framing, RequestHead } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { isEngineField, writableFields } from '../fields.js'

const PATH = /^[\x21-\x7e]+$/

/** Sets path, fields and framing of an upstream request. False: the target cannot stand in a request line. */
export function writeRequestHead(
  request: ClientRequest,
  head: RequestHead,
  framing: Framing,
  upgrade: boolean,
  expects: boolean
): boolean {
  if (!PATH.test(head.target)) return false
  request.path = head.target
  let list = head.headers
  try {
    setFields(request, list, framing)
  } catch {
    // A name or value that cannot be written; the check of all fields is made only now, on the rare path.
    for (const name of request.getHeaderNames()) request.removeHeader(name)
    list = writableFields(list)
    setFields(request, list, framing)
  }
  if (!request.hasHeader('host')) request.setHeader('Host', head.authority)
  if (framing.kind === 'open') request.setHeader('Transfer-Encoding', 'chunked')
  else if (framing.kind === 'length') request.setHeader('Content-Length', framing.bytes)
  if (upgrade) request.setHeader('Connection', 'Upgrade')
  if (expects) request.setHeader('Expect', '100-continue')
  return true
}

/** Repeated names become one entry with several values, which node:http writes as several fields. */
function setFields(request: ClientRequest, list: HeaderList, framing: Framing): void {
  request.removeHeader('host')
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (isEngineField(name)) continue
    if (name.length === 7 && framing.kind !== 'open' && name.toLowerCase() === 'trailer') continue
    if (request.hasHeader(name)) request.appendHeader(name, list[i + 1] as string)
    else request.setHeader(name, list[i + 1] as string)
  }
}
