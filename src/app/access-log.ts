import { createSocket } from 'node:dgram'
import { closeSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Expressions } from '../expression/expression.js'
import type { RequestHead } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import { CodedError } from '../lib/errors.js'
import { openToAppend } from '../lib/files.js'
import { LineOutput } from '../lib/line-output.js'
import { printableJson } from '../lib/printable.js'
import { fileReason } from '../lib/system-errors.js'
import type { Options } from '../options/options.js'
import { ACCESS_FIELDS, type AccessSample, type ExchangeFields, type LineWriter } from '../telemetry/access-log.js'
import { combinedLine } from '../telemetry/combined-line.js'
import { startErrors } from './errors.js'

type Written = Pick<
  Options,
  | 'access_log'
  | 'access_log_sample'
  | 'access_log_where'
  | 'access_log_format'
  | 'access_log_fields'
  | 'access_log_file'
  | 'access_log_syslog'
> & { readonly log: Pick<Options['log'], 'buffer'> }

/** Output of the access log's lines about exchanges and connections. */
export interface AccessLogOutput {
  readonly lines: LineWriter
  /** Sampling; undefined without an access log. */
  readonly sample: AccessSample | undefined
  /** Compiles the condition of the options. Throws a CodedError `ACCESS_LOG`. */
  choose(options: Pick<Written, 'access_log_where'>, expressions: Expressions): void
  /** Takes whole lines that another thread has made. */
  take(lines: readonly string[]): void
  /** Writes the queued lines, and closes. */
  close(): Promise<void>
}

/** A place for whole lines. */
interface Place {
  /** `line`: with its end. */
  write(line: string): unknown
  close(): Promise<void>
}

/**
 * Opens the configured access log. Its JSON lines on standard output pass through `log`, independent of its level. Throws a
 * CodedError `ACCESS_LOG` for a file that cannot be opened, or an unknown field.
 */
export function openAccessLog(options: Written, log: Logger, output: LineOutput | undefined): AccessLogOutput {
  const place = options.access_log ? placeOf(options, log) : undefined
  const written = place ?? output ?? STDOUT
  return {
    ...accessLogTo(written, options, log),
    take(lines) {
      for (const line of lines) written.write(line)
    },
    close: () => place?.close() ?? Promise.resolve()
  }
}

/**
 * Creates the access log of a worker: `put` passes its lines to the main thread; JSON for standard output is added to the
 * log. Throws a CodedError `ACCESS_LOG` for an unknown field.
 */
export function threadAccessLog(
  options: Written,
  log: Logger,
  put: (line: string) => void
): Omit<AccessLogOutput, 'close' | 'take'> {
  return accessLogTo({ write: put }, options, log)
}

/** Creates an access log with output to `place`; JSON lines on standard output pass through `log`. */
function accessLogTo(
  place: Pick<Place, 'write'>,
  options: Written,
  log: Logger
): Omit<AccessLogOutput, 'close' | 'take'> {
  const { access_log, access_log_sample: share, access_log_format: format } = options
  const { access_log_file: file, access_log_syslog: syslog } = options
  const names = fieldsOf(options)
  let where: AccessSample['where']
  const sample = {
    share,
    get where() {
      return where
    }
  }
  const plain =
    (!access_log || (file === undefined && syslog === undefined)) && names === undefined && format === 'json'
  return {
    lines: plain ? log.child({}, { level: 'info' }) : formatted(place, { combined: format === 'combined', names }),
    sample: access_log ? sample : undefined,
    choose({ access_log_where: source }, expressions) {
      if (source !== undefined) where = condition(source, expressions)
    }
  }
}

const STDOUT = { write: (line: string) => process.stdout.write(line) }

function wrong(message: string): CodedError {
  return new CodedError(startErrors.ACCESS_LOG, message)
}

function fieldsOf({ access_log_fields: written }: Written): readonly string[] | undefined {
  const names = written?.split(',').map((name) => name.trim())
  const unknown = names?.find((name) => !(ACCESS_FIELDS as readonly string[]).includes(name))
  if (unknown === undefined) return names
  throw wrong(`access_log_fields: there is no field "${unknown}"; give some of ${ACCESS_FIELDS.join(', ')}`)
}

/** Compiles the condition; an exchange for which it cannot be evaluated, such as one without a response status, is logged. */
function condition(source: string, expressions: Expressions): (flow: Flow) => boolean {
  const compiled = expressions.expression(source, 'on_http_response')
  if (!compiled.ok) throw wrong(`access_log_where: ${compiled.problems[0]?.message}; correct the expression`)
  const { type } = compiled.value
  if (type !== 'bool' && type !== 'dyn') throw wrong(`access_log_where: is of type ${type}; give one of type bool`)
  return (flow) => compiled.value.outcome(flow) !== false
}

interface Form {
  readonly combined: boolean
  readonly names: readonly string[] | undefined
}

function formatted(place: Pick<Place, 'write'>, { combined, names }: Form): LineWriter {
  const pick = (fields: ExchangeFields) => {
    const all: ExchangeFields = { time: Date.now(), ...fields }
    if (names === undefined) return { ...all, msg: 'exchange' }
    return Object.fromEntries(names.map((name) => [name, all[name] ?? null]))
  }
  return {
    info: (fields, msg) => place.write(`${printableJson(JSON.stringify({ time: Date.now(), ...fields, msg }))}\n`),
    exchange(fields: ExchangeFields, request: RequestHead) {
      place.write(
        combined ? combinedLine(fields, request, Date.now()) : `${printableJson(JSON.stringify(pick(fields)))}\n`
      )
    }
  }
}

/** Returns the configured place; undefined for standard output. */
function placeOf(
  { access_log_file: file, access_log_syslog: syslog, log: { buffer } }: Written,
  log: Logger
): Place | undefined {
  if (file !== undefined) return new LogFile(file, buffer, log)
  return syslog === undefined ? undefined : new Syslog(syslog, log)
}

/** Maximum time for writing the last lines (ms). */
const LAST_LINES = 1_000
/** Mode of a new log file. */
const OWNER_AND_GROUP = 0o640

/** A file that is reopened under the same name on SIGUSR1, after its rotation. */
class LogFile implements Place {
  readonly #path: string
  readonly #bytes: number
  readonly #log: Logger
  readonly #reopen = () => this.#again()
  #fd: number
  #output: LineOutput
  #ended: Promise<void> = Promise.resolve()

  constructor(path: string, bytes: number, log: Logger) {
    this.#path = path
    this.#bytes = bytes
    this.#log = log
    try {
      this.#fd = openToAppend(path, OWNER_AND_GROUP)
    } catch (error) {
      throw wrong(`access_log_file: ${path}: ${fileReason(error)}`)
    }
    this.#output = this.#outputOf(this.#fd)
    process.on('SIGUSR1', this.#reopen)
  }

  write(line: string): void {
    this.#output.write(line)
  }

  async close(): Promise<void> {
    process.off('SIGUSR1', this.#reopen)
    this.#end(this.#output, this.#fd)
    await this.#ended
  }

  #outputOf(fd: number): LineOutput {
    const recovered = ({ dropped, reason }: { readonly dropped: number; readonly reason: string }) =>
      this.#log.warn({ file: this.#path, dropped, reason }, 'the access log is written again; lines were dropped')
    return new LineOutput({ fd, bytes: this.#bytes, recovered })
  }

  #again(): void {
    let fd: number
    try {
      fd = openToAppend(this.#path, OWNER_AND_GROUP)
    } catch (error) {
      this.#log.error(
        { reason: fileReason(error), file: this.#path },
        'the access log cannot be opened anew; the old file goes on'
      )
      return
    }
    this.#end(this.#output, this.#fd)
    this.#fd = fd
    this.#output = this.#outputOf(fd)
    this.#log.info({ file: this.#path }, 'the access log is opened anew')
  }

  #end(output: LineOutput, fd: number): void {
    this.#ended = this.#ended.then(async () => {
      await output.close(LAST_LINES)
      closeSync(fd)
    })
  }
}

/** Facility local0, severity informational (RFC 5424 6.2.1). */
const PRIORITY = 134

/** A syslog server: one datagram for each line (RFC 5426). */
class Syslog implements Place {
  readonly #socket
  readonly #header = `${hostname().replace(/[^!-~]/g, '') || '-'} sluice ${process.pid} access -`

  constructor({ host, port }: { readonly host: string; readonly port: number }, log: Logger) {
    this.#socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    let reported = false
    this.#socket.on('error', (error) => {
      if (!reported) log.warn({ err: error }, 'the access log cannot reach its syslog server')
      reported = true
    })
    // Lost datagrams must not block.
    this.#socket.connect(port, host)
    this.#socket.unref()
  }

  write(line: string): void {
    try {
      this.#socket.send(`<${PRIORITY}>1 ${new Date().toISOString()} ${this.#header} ${line.trimEnd()}`, () => undefined)
    } catch {
      // It is not connected yet, or its name has no address.
    }
  }

  async close(): Promise<void> {
    this.#socket.close()
  }
}
