import { BACKSLASH, hexByte, isSpace, lowerText, PERCENT, QUOTE } from '../bytes.js'

/** A parameter of a header; `name` is in lower case. */
interface Parameter {
  readonly name: string
  readonly value: string
  readonly quoted: boolean
}

/** Value of a header before its parameters, in lower case, and the parameters in their order. */
export interface ParameterList {
  readonly value: string
  readonly parameters: readonly Parameter[]
  /** True if a quote has no end, a value or a semicolon is missing, or text follows a quoted value. */
  readonly malformed: boolean
}

/** Greatest number of parameters that are read. More are malformed. */
const MAX_PARAMETERS = 32

/**
 * Reads `value; name=token; name="text"` leniently. In a quoted text a backslash escapes a quote and a backslash; before other characters
 * it stands for itself, as some browsers send paths of Windows. An extended value (`name*=utf-8''%41`, RFC 8187) is decoded to bytes.
 */
export function readParameters(header: string): ParameterList {
  const semicolon = header.indexOf(';')
  const value = lowerText(header.slice(0, semicolon === -1 ? header.length : semicolon).trim())
  const parameters: Parameter[] = []
  let malformed = false
  let at = semicolon === -1 ? header.length : semicolon
  while (at < header.length) {
    if (header.charCodeAt(at) === 0x3b) at++
    else malformed = true
    at = skipSpace(header, at)
    if (at >= header.length) break
    if (parameters.length === MAX_PARAMETERS) return { value, parameters, malformed: true }
    const read = readParameter(header, at)
    malformed ||= read.malformed
    if (read.parameter !== undefined) parameters.push(read.parameter)
    at = skipSpace(header, read.end)
  }
  return { value, parameters, malformed }
}

interface ReadParameter {
  readonly parameter?: Parameter
  readonly end: number
  readonly malformed: boolean
}

function readParameter(header: string, start: number): ReadParameter {
  let at = start
  while (at < header.length && header.charCodeAt(at) !== 0x3d && header.charCodeAt(at) !== 0x3b) at++
  const name = lowerText(header.slice(start, at).trim())
  if (header.charCodeAt(at) !== 0x3d) return { end: at, malformed: true }
  at = skipSpace(header, at + 1)
  const quoted = header.charCodeAt(at) === QUOTE
  const read = quoted ? readQuoted(header, at + 1) : readToken(header, at)
  const extended = name.endsWith('*')
  const value = extended ? decodeExtended(read.value) : read.value
  return {
    parameter: { name: extended ? name.slice(0, -1) : name, value, quoted },
    end: read.end,
    malformed: read.malformed || name === ''
  }
}

function readQuoted(header: string, start: number): { value: string; end: number; malformed: boolean } {
  const parts: string[] = []
  let from = start
  for (let at = start; at < header.length; at++) {
    const code = header.charCodeAt(at)
    if (code === QUOTE) {
      parts.push(header.slice(from, at))
      return { value: parts.join(''), end: at + 1, malformed: false }
    }
    const next = header.charCodeAt(at + 1)
    if (code === BACKSLASH && (next === QUOTE || next === BACKSLASH)) {
      parts.push(header.slice(from, at))
      from = ++at
    }
  }
  parts.push(header.slice(from))
  return { value: parts.join(''), end: header.length, malformed: true }
}

function readToken(header: string, start: number): { value: string; end: number; malformed: boolean } {
  const semicolon = header.indexOf(';', start)
  const end = semicolon === -1 ? header.length : semicolon
  const value = header.slice(start, end).trim()
  return { value, end, malformed: value === '' || value.includes('"') }
}

/** Decodes `charset'language'text` to the bytes of the text; other text is decoded as a whole. */
function decodeExtended(text: string): string {
  const first = text.indexOf("'")
  const second = first === -1 ? -1 : text.indexOf("'", first + 1)
  const encoded = text.slice(second + 1)
  const parts: string[] = []
  let from = 0
  for (let at = 0; at < encoded.length; at++) {
    const byte = encoded.charCodeAt(at) === PERCENT ? hexByte(encoded, at + 1) : -1
    if (byte === -1) continue
    parts.push(encoded.slice(from, at), String.fromCharCode(byte))
    at += 2
    from = at + 1
  }
  parts.push(encoded.slice(from))
  return parts.join('')
}

function skipSpace(text: string, start: number): number {
  let at = start
  while (isSpace(text.charCodeAt(at))) at++
  return at
}
