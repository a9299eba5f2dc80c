import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CodedError, codeOf } from '../../lib/errors.js'
import { atOnce, Slices } from '../../lib/slices.js'
import { fileReason } from '../../lib/system-errors.js'
import { serviceKey } from '../../policy/services.js'
import { RuleSet } from './engine/rule-set.js'
import { wafStartErrors } from './errors.js'
import { readRuleFolder } from './folder.js'
import { readRuleSet } from './seclang/reader.js'
import { RuleSetError } from './seclang/rule.js'

/** Rules of the folder that the option `waf.rules` names. */
export interface WafRules {
  /** Replaced when the folder has changed and its rules are compiled. */
  readonly current: RuleSet
}

/** Rules for the actions; undefined if the option is not set, `unchecked` where documents are only checked. */
export const wafRules = serviceKey<WafRules | 'unchecked' | undefined>('waf_rules', () => 'unchecked')

/** Option values of the firewall. */
export interface WafOptions {
  readonly rules?: string | undefined
  readonly skip_unknown: boolean
}

/** Log of the folder. */
interface FolderLog {
  info(fields: Readonly<Record<string, unknown>>, message: string): void
  error(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** Interval of the look for changes of the folder (ms). */
const LOOK = 2_000

/** Reads and compiles a folder. Rejects with `WAF_RULES_INVALID`. */
export async function loadRules(
  folder: string,
  { skip_unknown: skipUnknown }: WafOptions,
  slices?: Slices
): Promise<RuleSet> {
  try {
    const { files, data, digest } = await readRuleFolder(folder)
    const source = readRuleSet(files, skipUnknown)
    const steps = RuleSet.compile(source, { digest, data: (name) => data.get(name), skipUnknown })
    return slices === undefined ? atOnce(steps) : await slices.run(steps)
  } catch (cause) {
    const code = codeOf(cause)
    if (!(cause instanceof RuleSetError) && code === undefined) throw cause
    const why = cause instanceof RuleSetError ? cause.message : `${folder}: ${fileReason(code as string)}`
    throw new CodedError(wafStartErrors.WAF_RULES_INVALID, `waf.rules: ${why}`, { cause })
  }
}

/**
 * Rules of a folder that are read again when its files change. The new rules are compiled in slices beside traffic; the old ones serve
 * until then, and go on if the folder cannot be read.
 */
export class FolderRules implements WafRules {
  readonly #folder: string
  readonly #options: WafOptions
  readonly #log: FolderLog
  readonly #timer: NodeJS.Timeout
  #current: RuleSet
  /** State of the files at the last look, and that of the current rules. */
  #seen: string
  #read: string
  #busy: Promise<void> = Promise.resolve()

  private constructor(folder: string, options: WafOptions, log: FolderLog, loaded: { rules: RuleSet; state: string }) {
    this.#folder = folder
    this.#options = options
    this.#log = log
    this.#current = loaded.rules
    this.#seen = loaded.state
    this.#read = loaded.state
    this.#timer = setInterval(() => {
      this.#busy = this.#busy.then(() => this.look())
    }, LOOK)
    this.#timer.unref()
  }

  /** Reads the folder of the options; undefined without one. Rejects with `WAF_RULES_INVALID`. */
  static async open(options: WafOptions, log: FolderLog): Promise<FolderRules | undefined> {
    const { rules: folder } = options
    if (folder === undefined) return undefined
    const state = await describeFiles(folder)
    return new FolderRules(folder, options, log, { rules: await loadRules(folder, options), state })
  }

  get current(): RuleSet {
    return this.#current
  }

  /** Looks for a change and reads the folder again once it is quiet between two looks. */
  async look(): Promise<void> {
    const state = await describeFiles(this.#folder)
    const quiet = state === this.#seen
    this.#seen = state
    if (state === this.#read || !quiet) return
    this.#read = state
    const folder = this.#folder
    try {
      const rules = await loadRules(folder, this.#options, Slices.besideTraffic())
      if (rules.digest === this.#current.digest) return
      this.#current = rules
      this.#log.info({ folder, rules: rules.size, digest: rules.digest }, 'the rules of the folder are read again')
    } catch (error) {
      this.#log.error({ err: error, folder }, 'the changed rules cannot be used; the previous ones stay active')
    }
  }

  /** Ends the look for changes. */
  close(): void {
    clearInterval(this.#timer)
  }
}

/** Returns names, sizes and times of the files of a folder, as one text; '' if it cannot be read. */
async function describeFiles(folder: string): Promise<string> {
  try {
    const lines: string[] = []
    for (const place of [folder, join(folder, 'rules')]) {
      const names = await readdir(place).catch(() => [])
      for (const name of names.sort()) {
        if (!/\.(?:conf|data|example)$/.test(name)) continue
        const { size, mtimeMs } = await stat(join(place, name))
        lines.push(`${place}/${name} ${size} ${mtimeMs}`)
      }
    }
    return lines.join('\n')
  } catch {
    return ''
  }
}
