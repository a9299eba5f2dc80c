import { styleText } from 'node:util'
import { destination, type Logger, pino } from 'pino'

export interface ProcessLog {
  readonly logger: Logger
  /** Writes what is still held back; call it before the process ends. */
  flush(): void
}

/**
 * The log on standard output: one JSON object a line, or, on a terminal, one readable line. Lines are handed over
 * without waiting for the reader.
 */
export function createLog(level: string, output: NodeJS.WriteStream & { fd: number }): ProcessLog {
  const options = { level, base: null }
  if (output.isTTY) {
    const logger = pino(options, { write: (line: string) => void output.write(readable(line)) })
    return { logger, flush: () => undefined }
  }
  const target = destination({ dest: output.fd, sync: false })
  return { logger: pino(options, target), flush: () => target.flushSync() }
}

const SEVERITIES = [
  [50, 'error', 'red'],
  [40, 'warning', 'yellow'],
  [30, '', 'reset'],
  [0, 'debug', 'gray']
] as const

/** `12:30:05 GET 127.0.0.1:8080/ 200 3ms`, or the message with its fields. */
function readable(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as LogLine
  const [, word, colour] = SEVERITIES.find(([least]) => level >= least) ?? SEVERITIES[3]
  const clock = styleText('gray', new Date(time).toTimeString().slice(0, 8))
  const severity = word === '' ? '' : `${styleText(colour, word)} `
  const text = typeof fields.method === 'string' ? exchange(fields) : `${msg ?? ''}${fieldsOf(fields)}`
  return `${clock} ${severity}${text}\n`
}

interface LogLine {
  readonly level: number
  readonly time: number
  readonly msg?: string
  readonly [field: string]: unknown
}

/** The access log's line without what matters to programs only. */
function exchange({
  method,
  host,
  path,
  status,
  duration_ms,
  rule,
  action,
  code,
  client
}: Record<string, unknown>): string {
  const colour = Number(status) >= 500 ? 'red' : Number(status) >= 400 ? 'yellow' : 'green'
  const why = fieldsOf(
    Object.fromEntries(Object.entries({ rule, action, code, client }).filter(([, value]) => value !== undefined))
  )
  return `${String(method)} ${String(host ?? '')}${String(path)} ${styleText(colour, String(status))} ${String(duration_ms)}ms${why}`
}

function fieldsOf(fields: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  )
  return texts.length === 0 ? '' : ` ${styleText('gray', texts.join(' '))}`
}
