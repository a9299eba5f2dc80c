import type { FunctionDefinition } from '../function-definition.js'
import { encodeText } from './base64.js'
import { failed } from './bounds.js'

/** A colon would move the border between name and password (RFC 7617 section 2). */
function basic(user: string, password: string): string {
  if (user.includes(':')) throw failed('a user name for basic authentication holds no colon')
  return `Basic ${encodeText(`${user}:${password}`)}`
}

/** `basic_auth.encode(user, password)`: the value of an `Authorization` header (RFC 7617, UTF-8). */
export const authFunctions: readonly FunctionDefinition[] = [
  { signature: 'basic_auth.encode(string, string): string', run: basic }
]
