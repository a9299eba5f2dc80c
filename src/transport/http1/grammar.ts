/** Character classes of RFC 9110 5.6.2 and 5.5, and of RFC 9112 3.2, as tables over latin1 codes. */
export const TOKEN = new Uint8Array(256)
for (const character of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  TOKEN[character.charCodeAt(0)] = 1
}
/** Field values: visible, SP, HT, obs-text. */
export const VALUE = new Uint8Array(256).fill(1, 0x20).fill(0, 0x7f, 0x80)
VALUE[0x09] = 1
/** Visible ASCII. */
export const TARGET = new Uint8Array(256).fill(1, 0x21, 0x7f)
export const HEX = new Int8Array(256).fill(-1)
for (let i = 0; i < 16; i++) {
  HEX[i.toString(16).charCodeAt(0)] = i
  HEX[i.toString(16).toUpperCase().charCodeAt(0)] = i
}

export const CR = 0x0d
export const LF = 0x0a
export const SP = 0x20
export const HT = 0x09
export const COLON = 0x3a
export const SEMICOLON = 0x3b

/** True when every character of `text` is in `table`; characters beyond latin1 are in none. */
export function consistsOf(table: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false
  return true
}

/** True when `list`, a comma-separated field value, holds `token` (lower-case) in any case. */
export function hasToken(list: string, token: string): boolean {
  if (list.length === token.length) return list.toLowerCase() === token
  if (list.length < token.length || !list.includes(',')) return list.trim().toLowerCase() === token
  return list.split(',').some((part) => part.trim().toLowerCase() === token)
}
