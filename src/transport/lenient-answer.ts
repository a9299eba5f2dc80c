import { trimmed } from './http1/head-text.js'
import { textOf } from './http1/wire.js'

/** Characters of one line that are kept until it ends; a longer one goes on to the strict reader as it came. */
const LONGEST_LINE = 262_144
/** ASCII code of the line feed. */
const LF = 0x0a
/** Status line with optional extra spaces and without a reason. */
const STATUS = /^HTTP\/1\.([0-9]) +([1-9][0-9]{2})(?: (.*))?$/s
/** A chunk size, padded or not, and its extensions. */
const SIZE = /^([0-9a-f]{1,12})[\t ]*(;.*)?$/is
/** Name and value of a header line. */
const FIELD = /^([^:\s]+):(.*)$/s
/** One length, or a list of them. */
const LENGTHS = /^ *([0-9]+(?: *, *[0-9]+)*) *$/
/** The fields by which the end of a message is found. */
const FRAMING = /^(?:content-length|transfer-encoding)[^!#$%&'*+\-.^_`|~0-9a-z]/i
/** An empty buffer. */
const EMPTY = Buffer.alloc(0)

/**
 * Rewrites the answers of one connection of HTTP/1 to the strict grammar, in front of the reader that holds them to it. Lines may end with
 * LF alone; control characters in values become spaces, and folded lines one line (RFC 9112 2.2, 5.2; RFC 9110 5.5); `HTTP/1.2` to
 * `HTTP/1.9` are 1.1 (RFC 9110 2.5); spaces after the version are one; equal lengths are one (RFC 9110 8.6); a chunk size may be padded.
 *
 * Whatever could be read as another message is left as it came, so that the strict reader refuses it: control characters and folds in
 * `Content-Length` and `Transfer-Encoding`, different lengths, a fold of white space alone, a chunk extension behind which LF stands alone.
 * The result does not depend on how the bytes are cut.
 */
export class LenientAnswer {
  #step: 'status' | 'fields' | 'size' | 'chunk-end' | 'trailers' = 'status'
  #line = ''
  /** The last field line, which the next line may go on with. */
  #field: string | undefined = undefined
  #framing = false
  /** Bytes that pass as they are: those of a chunk, or all up to the next request. */
  #passing = 0
  #bodiless = false
  #status = 0
  #length: string | undefined = undefined
  #chunked = false

  /** A request with this method is about to be written; its answer follows. */
  begin(method: string): void {
    this.#bodiless = method === 'HEAD'
    this.#line = ''
    this.#passing = 0
    this.#next()
  }

  /** The next bytes, from 0 to `length` of `chunk`, in the strict grammar: `chunk` itself where it is as it should be, else a copy. */
  read(chunk: Buffer, length: number): Buffer {
    if (this.#passing >= length) {
      this.#passing -= length
      return chunk
    }
    const out: Buffer[] = []
    for (let at = 0; at < length; ) {
      if (this.#passing > 0) {
        const end = Math.min(length, at + this.#passing)
        this.#passing -= end - at
        out.push(chunk.subarray(at, end))
        at = end
        continue
      }
      const found = chunk.subarray(0, length).indexOf(LF, at)
      const end = found === -1 ? length : found + 1
      this.#line += textOf(chunk, at, end)
      at = end
      const line = this.#line
      const tooLong = line.length > LONGEST_LINE
      if (found === -1 && !tooLong) break
      this.#line = ''
      out.push(Buffer.from(tooLong ? this.#giveUp(line) : this.#read(line), 'latin1'))
    }
    return out.length === 0 ? EMPTY : Buffer.concat(out)
  }

  /** A line that is too long for the strict reader. */
  #giveUp(line: string): string {
    const before = this.#takeField()
    this.#passing = Number.POSITIVE_INFINITY
    return before + line
  }

  #next(): void {
    this.#step = 'status'
    this.#field = this.#length = undefined
    this.#chunked = false
  }

  /** A line with its end; gives what stands for it. */
  #read(line: string): string {
    const text = withoutEnd(line)
    switch (this.#step) {
      case 'status':
        return this.#statusLine(text) ?? line
      case 'size':
        return this.#sizeLine(text, line)
      case 'chunk-end':
        this.#step = 'size'
        return text === '' ? '\r\n' : line
      default:
        if (text === '') return this.#blockEnds()
        return isFold(text) ? this.#fold(text, line) : this.#fieldLine(text)
    }
  }

  #statusLine(text: string): string | undefined {
    const [, minor, status, reason] = STATUS.exec(text) ?? []
    this.#step = 'fields'
    if (status === undefined) return undefined
    this.#status = Number(status)
    return `HTTP/1.${minor === '0' ? 0 : 1} ${status}${reason === undefined ? '' : ` ${printable(reason)}`}\r\n`
  }

  #fieldLine(text: string): string {
    const before = this.#takeField()
    this.#field = text
    this.#framing = FRAMING.test(text)
    return before
  }

  /** RFC 9112 5.2. White space alone is the end of the head to some readers. */
  #fold(text: string, line: string): string {
    const more = trimmed(text, 0, text.length)
    const field = this.#field
    if (field === undefined || more === '' || this.#framing || field.length + more.length > LONGEST_LINE)
      return this.#takeField() + line
    this.#field = `${field} ${more}`
    return ''
  }

  /** The field line that was kept, complete. */
  #takeField(): string {
    const field = this.#field
    if (field === undefined) return ''
    this.#field = undefined
    const [, name = '', value = ''] = FIELD.exec(field) ?? []
    if (!this.#framing) return `${name === '' ? field : `${name}:${printable(value)}`}\r\n`
    if (this.#step === 'trailers') return `${field}\r\n`
    if (name.toLowerCase() === 'transfer-encoding') {
      this.#chunked = true
      return `${field}\r\n`
    }
    const lengths = LENGTHS.exec(value)?.[1]?.split(/ *, */)
    const [first = ''] = lengths ?? []
    if (lengths?.some((one) => one !== first) !== false) return `${field}\r\n`
    if (this.#length === first) return ''
    this.#length = first
    return lengths?.length === 1 ? `${field}\r\n` : `${name}: ${first}\r\n`
  }

  #blockEnds(): string {
    const text = `${this.#takeField()}\r\n`
    const status = this.#status
    if (this.#step === 'fields' && status < 200 && status !== 101) this.#next()
    else if (
      this.#step === 'fields' &&
      status >= 200 &&
      this.#chunked &&
      !this.#bodiless &&
      status !== 204 &&
      status !== 304
    )
      this.#step = 'size'
    // The strict reader knows where the message ends.
    else this.#passing = Number.POSITIVE_INFINITY
    return text
  }

  #sizeLine(text: string, line: string): string {
    const [, digits, extensions = ''] = SIZE.exec(text) ?? []
    if (digits === undefined) return line
    this.#passing = Number.parseInt(digits, 16)
    this.#step = this.#passing === 0 ? 'trailers' : 'chunk-end'
    return digits + extensions + (extensions === '' ? '\r\n' : line.slice(text.length))
  }
}

function withoutEnd(line: string): string {
  if (line.endsWith('\r\n')) return line.slice(0, -2)
  return line.endsWith('\n') ? line.slice(0, -1) : line
}

function isFold(text: string): boolean {
  return text.startsWith(' ') || text.startsWith('\t')
}

/** A value in which control characters are spaces. */
function printable(value: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return value.replace(/[\x00-\x08\x0a-\x1f\x7f]/g, ' ')
}
