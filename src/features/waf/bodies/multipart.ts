import { isSpace } from '../bytes.js'
import { type ParameterList, readParameters } from './parameters.js'
import { BodyError, type BodyOptions, type BodyResult, type BodyValues, collectValues } from './values.js'

/** Deviations from RFC 7578 that applications read differently. ModSecurity has a MULTIPART_ variable for each. */
export interface MultipartFlags {
  /** The boundary is quoted in Content-Type. */
  boundaryQuoted: boolean
  /** The boundary contains white space. */
  boundaryWhitespace: boolean
  /** The body has text before the first boundary. */
  dataBefore: boolean
  /** The body has text after the last boundary. */
  dataAfter: boolean
  /** A header continues on a second line. */
  headerFolding: boolean
  /** A line ends with a line feed alone. */
  lfLine: boolean
  /** Both line ends are used. */
  crlfLfLines: boolean
  /** Parameters of Content-Disposition are not correctly separated or quoted. */
  invalidQuoting: boolean
  /** A part has a malformed header, no Content-Disposition, or parameters twice. */
  invalidPart: boolean
  /** A line begins like the boundary but is not one. */
  unmatchedBoundary: boolean
  /** The last boundary is missing. */
  missingEnd: boolean
}

/** Values of a multipart body, its flags, and the sizes of its files in bytes. */
export interface MultipartResult extends BodyResult {
  readonly flags: Readonly<MultipartFlags>
  /** True if a flag of ModSecurity's MULTIPART_STRICT_ERROR is set, or the body could not be read. */
  readonly strictError: boolean
  /** Sum of the sizes of files (FILES_COMBINED_SIZE). */
  readonly filesSize: number
}

interface MultipartOptions extends BodyOptions {
  /** Value of the header Content-Type. */
  readonly contentType: string
}

/** Greatest length of a boundary in bytes. RFC 2046 allows 70. */
const MAX_BOUNDARY = 200

/** Greatest number of bytes of the headers of a part. */
const MAX_PART_HEADERS = 16_384

/**
 * Reads `multipart/form-data` (RFC 7578). A part with a file name yields its name in FILES_NAMES and each file name, also that of
 * `filename*`, in FILES; other parts yield ARGS_POST. Each header of a part is a value of MULTIPART_PART_HEADERS under the name of the part.
 */
export function readMultipart(bytes: Buffer, options: MultipartOptions): MultipartResult {
  let reader: MultipartReader | undefined
  const result = collectValues(options, (values) => {
    reader = new MultipartReader(bytes.toString('latin1'), options, values)
    reader.read()
  })
  const flags = reader?.flags ?? noFlags()
  const harmless: readonly (keyof MultipartFlags)[] = ['lfLine']
  const strict = (Object.keys(flags) as (keyof MultipartFlags)[]).some(
    (flag) => flags[flag] && !harmless.includes(flag)
  )
  return { ...result, flags, strictError: strict || result.error !== undefined, filesSize: reader?.filesSize ?? 0 }
}

function noFlags(): MultipartFlags {
  return {
    boundaryQuoted: false,
    boundaryWhitespace: false,
    dataBefore: false,
    dataAfter: false,
    headerFolding: false,
    lfLine: false,
    crlfLfLines: false,
    invalidQuoting: false,
    invalidPart: false,
    unmatchedBoundary: false,
    missingEnd: false
  }
}

/** A line that is a boundary: `end` is the offset after it. */
interface Boundary {
  readonly start: number
  readonly end: number
  readonly last: boolean
}

class MultipartReader {
  readonly flags = noFlags()
  filesSize = 0
  readonly #text: string
  readonly #values: BodyValues
  readonly #delimiter: string
  readonly #truncated: boolean
  #crlf = false

  constructor(text: string, options: MultipartOptions, values: BodyValues) {
    this.#text = text
    this.#values = values
    this.#truncated = options.truncated === true
    this.#delimiter = `--${this.#boundary(options.contentType)}`
  }

  #boundary(contentType: string): string {
    const boundaries = readParameters(contentType).parameters.filter(({ name }) => name === 'boundary')
    const [boundary] = boundaries
    if (boundary === undefined || boundary.value === '') throw new BodyError('the multipart body has no boundary')
    if (boundaries.length > 1) throw new BodyError('the multipart body has two boundaries')
    if (boundary.value.length > MAX_BOUNDARY) throw new BodyError('the multipart boundary is too long')
    this.flags.boundaryQuoted = boundary.quoted
    this.flags.boundaryWhitespace = boundary.value.includes(' ') || boundary.value.includes('\t')
    return boundary.value
  }

  read(): void {
    let boundary = this.#find(0)
    if (boundary === undefined) {
      if (this.#truncated) return
      throw new BodyError('the multipart body does not contain its boundary')
    }
    this.flags.dataBefore = boundary.start > 0
    while (!boundary.last) {
      const next = this.#find(boundary.end)
      this.#part(this.#text.slice(boundary.end, next === undefined ? this.#text.length : this.#contentEnd(next.start)))
      if (next === undefined) {
        this.flags.missingEnd = !this.#truncated
        return
      }
      boundary = next
    }
    for (let i = boundary.end; i < this.#text.length && !this.flags.dataAfter; i++) {
      this.flags.dataAfter = !isSpace(this.#text.charCodeAt(i))
    }
  }

  /** Finds the next line that is a boundary. */
  #find(from: number): Boundary | undefined {
    const text = this.#text
    for (let at = text.indexOf(this.#delimiter, from); at !== -1; at = text.indexOf(this.#delimiter, at + 1)) {
      if (at > 0 && text.charCodeAt(at - 1) !== 0x0a) continue
      const after = at + this.#delimiter.length
      const last = text.startsWith('--', after)
      let end = last ? after + 2 : after
      while (text.charCodeAt(end) === 0x20 || text.charCodeAt(end) === 0x09) end++
      const line = this.#lineEnd(end)
      if (line !== undefined || end === text.length) return { start: at, end: line ?? end, last }
      if (last) {
        // Text after the last boundary belongs to no part.
        return { start: at, end, last }
      }
      this.flags.unmatchedBoundary = true
    }
    return undefined
  }

  /** Returns the offset after a line end at `at`, undefined if there is none. */
  #lineEnd(at: number): number | undefined {
    if (this.#text.charCodeAt(at) === 0x0a) {
      this.#sawLine(false)
      return at + 1
    }
    if (!this.#text.startsWith('\r\n', at)) return undefined
    this.#sawLine(true)
    return at + 2
  }

  #sawLine(crlf: boolean): void {
    if (crlf) this.#crlf = true
    else this.flags.lfLine = true
    this.flags.crlfLfLines = this.#crlf && this.flags.lfLine
  }

  /** Returns the end of a part's content: the line end before a boundary belongs to the boundary. */
  #contentEnd(boundary: number): number {
    return this.#text.charCodeAt(boundary - 2) === 0x0d ? boundary - 2 : boundary - 1
  }

  #part(text: string): void {
    const headers: string[] = []
    let at = 0
    for (;;) {
      const feed = text.indexOf('\n', at)
      const line = text.slice(at, feed === -1 ? text.length : feed)
      const content = line.endsWith('\r') ? line.slice(0, -1) : line
      if (feed === -1) at = text.length
      else {
        this.#sawLine(content !== line)
        at = feed + 1
      }
      if (content === '') break
      if (at > MAX_PART_HEADERS) throw new BodyError(`the headers of a part have more than ${MAX_PART_HEADERS} byte(s)`)
      this.#addHeader(headers, content)
      if (feed === -1) break
    }
    this.#addPart(headers, text.slice(at))
  }

  #addHeader(headers: string[], line: string): void {
    const folded = line.startsWith(' ') || line.startsWith('\t')
    if (!folded || headers.length === 0) headers.push(line)
    else headers[headers.length - 1] += ` ${line.trim()}`
    if (folded) this.flags.headerFolding = true
    else if (line.indexOf(':') < 1) this.flags.invalidPart = true
  }

  #addPart(headers: readonly string[], content: string): void {
    const dispositions = headers.flatMap((header) => {
      const colon = header.indexOf(':')
      const is = header.slice(0, colon).trim().toLowerCase() === 'content-disposition'
      return colon !== -1 && is ? [readParameters(header.slice(colon + 1))] : []
    })
    const parameters = dispositions.flatMap((disposition) => disposition.parameters)
    const names = parameters.filter(({ name }) => name === 'name')
    const files = parameters.filter(({ name }) => name === 'filename')
    this.#checkPart(dispositions, names.length, files.length)
    const name = names[0]?.value ?? ''
    for (const header of headers) this.#values.add('MULTIPART_PART_HEADERS', name, header)
    for (const other of names.slice(1)) this.#values.add('ARGS_POST', other.value, content)
    if (files.length === 0) {
      this.#values.add('ARGS_POST', name, content)
      return
    }
    this.filesSize += content.length
    for (const { value } of names) this.#values.add('FILES_NAMES', name, value)
    for (const { value } of files) this.#values.add('FILES', name, value)
  }

  #checkPart(dispositions: readonly ParameterList[], names: number, files: number): void {
    const [disposition] = dispositions
    if (dispositions.length !== 1 || disposition?.value !== 'form-data' || names !== 1) this.flags.invalidPart = true
    // A part may have both `filename` and `filename*`.
    if (files > 2) this.flags.invalidPart = true
    if (dispositions.some(({ malformed }) => malformed)) this.flags.invalidQuoting = true
  }
}
