import type { HeaderList } from '../../../flow/headers.js'
import { readJson } from '../bodies/json.js'
import { readMultipart } from '../bodies/multipart.js'
import { readUrlencoded } from '../bodies/urlencoded.js'
import type { BodyResult } from '../bodies/values.js'
import { readXml } from '../bodies/xml.js'
import { readField, setArguments, setFields } from './request-values.js'
import { Target } from './target.js'
import type { Transaction } from './transaction.js'

/** Examined bytes of a body. */
export interface ExaminedBody {
  readonly bytes: Buffer
  /** The body continues after these bytes. */
  readonly truncated: boolean
}

/**
 * Sets the variables of the second phase from the body of a request. Returns why the body cannot be read; its readable part and the text of
 * the body are examined nevertheless.
 */
export function setRequestBody(
  transaction: Transaction,
  { bytes, truncated }: ExaminedBody,
  headers: HeaderList
): string | undefined {
  transaction.spend(bytes.length)
  const processor = transaction.collection('REQBODY_PROCESSOR')[0]?.value ?? ''
  transaction.setOne('REQUEST_BODY_LENGTH', String(bytes.length))
  if (bytes.length === 0) return undefined
  const result = readBody(processor, bytes, truncated, readField(headers, 'content-type'))
  const error = result?.error
  if (processor === 'URLENCODED' || transaction.keepsBodyText || error !== undefined)
    transaction.setOne('REQUEST_BODY', bytes.toString('latin1'))
  transaction.setOne('REQBODY_ERROR', error === undefined ? '0' : '1')
  if (result !== undefined) setBodyValues(transaction, result)
  if (result !== undefined && 'filesSize' in result) transaction.setOne('FILES_COMBINED_SIZE', String(result.filesSize))
  return error
}

function readBody(processor: string, bytes: Buffer, truncated: boolean, contentType: string): BodyResult | undefined {
  const options = { truncated }
  switch (processor) {
    case 'URLENCODED':
      return readUrlencoded(bytes, options)
    case 'JSON':
      return readJson(bytes, options)
    case 'MULTIPART':
      return readMultipart(bytes, { ...options, contentType })
    case 'XML':
      return readXml(bytes, options)
    default:
      return undefined
  }
}

function setBodyValues(transaction: Transaction, { values }: BodyResult): void {
  const of = (collection: string) => values.filter((one) => one.collection === collection)
  setArguments(transaction, 'ARGS_POST', of('ARGS_POST'))
  for (const collection of ['FILES', 'FILES_NAMES', 'MULTIPART_PART_HEADERS', 'XML']) {
    const members = of(collection)
    if (members.length === 0) continue
    transaction.set(
      collection,
      members.map(({ name, value }) => new Target(collection, name, value))
    )
  }
}

/** Sets the variables of the third phase. */
export function setResponseHead(
  transaction: Transaction,
  response: { readonly status: number; readonly protocol: string; readonly headers: HeaderList }
): void {
  transaction.setOne('RESPONSE_STATUS', String(response.status))
  transaction.setOne('RESPONSE_PROTOCOL', response.protocol)
  setFields(transaction, 'RESPONSE_HEADERS', response.headers)
  const [type = ''] = readField(response.headers, 'content-type').split(';')
  transaction.setOne('RESPONSE_CONTENT_TYPE', type.trim())
}

/** Sets the variables of the fourth phase. */
export function setResponseBody(transaction: Transaction, { bytes }: ExaminedBody): void {
  transaction.spend(bytes.length)
  transaction.setOne('RESPONSE_CONTENT_LENGTH', String(bytes.length))
  if (bytes.length > 0) transaction.setOne('RESPONSE_BODY', bytes.toString('latin1'))
}
