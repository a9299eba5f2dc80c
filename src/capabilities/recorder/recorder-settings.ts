import type { Expressions } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { CodedError, defineErrors } from '../../lib/errors.js'
import { type ExchangeCondition, exchangeCondition, requestCondition } from './exchange-conditions.js'
import { mustBeWritable } from './exchange-file.js'

/** Settings of the recorder. */
export interface RecorderSettings {
  /** Bytes of the ring. */
  readonly memory: number
  /** CEL condition for recorded exchanges; `false`: only followed or explained ones. @default refusals, failures and a sample */
  readonly where: string | undefined
  /** CEL condition for explained requests. @default those with a key */
  readonly explain: string | undefined
  /** Bytes of each body that are kept. */
  readonly bodies: number
  /** Path of a file to which exchanges are also written. */
  readonly file: string | undefined
  /** Bytes of that file until a new one begins. */
  readonly fileBytes: number
}

interface WrittenSettings extends Pick<RecorderSettings, 'memory' | 'bodies'> {
  readonly where?: string
  readonly explain?: string
  readonly file?: string
  readonly file_bytes: number
}

/** Reads the recorder's settings from the options. */
export function recorderSettings(written: WrittenSettings): RecorderSettings {
  const { where, explain, memory, bodies, file, file_bytes } = written
  return { where, explain, memory, bodies, file, fileBytes: file_bytes }
}

/** Codes of settings of the recorder. */
export const recorderErrors = defineErrors({
  RECORDER_CONDITION: {
    text: 'A condition of the recorder is no expression of type bool.',
    help: 'Correct recorder.where or recorder.explain; the message says where.'
  }
})

/** Compiled conditions of the settings. */
export interface CompiledSettings {
  readonly where: ExchangeCondition | undefined
  /** No condition selects exchanges: refusals, failures and a sample are recorded. */
  readonly recordsUsual: boolean
  readonly explain: ((flow: Flow) => boolean) | undefined
}

/** Throws a CodedError `RECORDER_CONDITION` or `RECORDER_FILE`. */
export function compiledSettings(expressions: Expressions, settings: RecorderSettings): CompiledSettings {
  const { where, explain, file } = settings
  const recorded = where === undefined ? undefined : exchangeCondition(expressions, where)
  if (recorded?.ok === false) throw refused('recorder.where', recorded.message)
  const explained = explain === undefined ? undefined : requestCondition(expressions, explain)
  if (explained?.ok === false) throw refused('recorder.explain', explained.message)
  if (file !== undefined) mustBeWritable(file)
  // What is never true needs no exchange to be looked at.
  const isOff = where?.trim() === 'false'
  return { where: isOff ? undefined : recorded?.value, recordsUsual: where === undefined, explain: explained?.value }
}

function refused(option: string, message: string): CodedError {
  return new CodedError(recorderErrors.RECORDER_CONDITION, `${option}: ${message}`)
}
