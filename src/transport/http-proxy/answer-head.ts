import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { ResponseHead } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { isEngineField, writableFields, writableReason } from '../fields.js'

/** How an answer is framed. */
export interface AnswerShape {
  /** HEAD, 204, 304: the head alone. */
  readonly bodiless: boolean
  /** What content-length says, if it is written. */
  readonly length: number | undefined
  readonly chunked: boolean
  readonly close: boolean
}

/** `list` without the fields of the engine, with those that `shape` asks for. */
export function answerFields(list: HeaderList, shape: AnswerShape): string[] {
  const fields: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (isEngineField(name) || (!shape.chunked && name.length === 7 && name.toLowerCase() === 'trailer')) continue
    fields.push(name, list[i + 1] as string)
  }
  if (shape.length !== undefined) fields.push('content-length', String(shape.length))
  else if (shape.chunked) fields.push('transfer-encoding', 'chunked')
  if (shape.close) fields.push('connection', 'close')
  return fields
}

/** Settles the head of `response`. False: no final answer has this status. */
export function writeHead(response: ServerResponse, head: ResponseHead, fields: string[]): boolean {
  if (!Number.isInteger(head.status) || head.status < 200 || head.status > 999) return false
  const reason = writableReason(head.reason) ?? STATUS_CODES[head.status] ?? ''
  try {
    response.writeHead(head.status, reason, fields)
  } catch {
    // A name or value that cannot be written; nothing was. The check of all fields is made only now, on the rare path.
    response.writeHead(head.status, reason, writableFields(fields) as string[])
  }
  return true
}

/** A 1xx head as text; `extra` is a finished field line. */
export function interimHead(head: ResponseHead, extra = ''): string {
  let text = `HTTP/1.1 ${head.status} ${writableReason(head.reason) ?? STATUS_CODES[head.status] ?? ''}\r\n${extra}`
  const fields = writableFields(head.headers)
  for (let i = 0; i < fields.length; i += 2) {
    if (!isEngineField(fields[i] as string)) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  }
  return `${text}\r\n`
}
