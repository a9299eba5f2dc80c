import type { CookieStyle, Jar } from './cookies.js'

/** Browsers keep 4,096 bytes of name, value and attributes. */
const PIECE = 3_500
/** More would take too much of what a server accepts as header. */
const MOST_PIECES = 5

/** Longest sealed session that is kept. */
export const LONGEST_SESSION = PIECE * MOST_PIECES

/** The sealed session that the pieces in `jar` make; '' when there is none. What is missing or mixed does not open. */
export function joinPieces(style: CookieStyle, jar: Jar): string {
  const first = jar.get(style.session)
  if (first === undefined) return ''
  const dot = first.indexOf('.')
  if (dot === -1) return first
  const count = Number(first.slice(0, dot))
  if (!(count <= MOST_PIECES)) return ''
  let text = first.slice(dot + 1)
  for (let i = 1; i < count; i++) text += jar.get(`${style.session}.${i}`) ?? ''
  return text
}

/** Set-Cookie values that keep `sealed`, and end pieces of an earlier one. At most `LONGEST_SESSION` characters. */
export function setPieces(style: CookieStyle, sealed: string, jar: Jar, maxAge: number | undefined): string[] {
  if (sealed.length > LONGEST_SESSION) throw new RangeError('the session is too long for cookies')
  const count = Math.ceil(sealed.length / PIECE)
  const lines = count === 1 ? [style.set(style.session, sealed, maxAge)] : []
  for (let i = 0; count > 1 && i < count; i++) {
    const piece = sealed.slice(i * PIECE, (i + 1) * PIECE)
    const [name, value] = i === 0 ? [style.session, `${count}.${piece}`] : [`${style.session}.${i}`, piece]
    lines.push(style.set(name, value, maxAge))
  }
  return [...lines, ...dropPieces(style, jar, Math.max(count, 1))]
}

/** Set-Cookie values that end the pieces in `jar`, from number `from` on. */
export function dropPieces(style: CookieStyle, jar: Jar, from = 0): string[] {
  const names = [style.session]
  for (let i = 1; i < MOST_PIECES; i++) names.push(`${style.session}.${i}`)
  return names
    .slice(from)
    .filter((name) => jar.has(name))
    .map((name) => style.drop(name))
}
