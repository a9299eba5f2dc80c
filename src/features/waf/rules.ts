import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { atOnce, Slices } from '../../lib/slices.js'
import { serviceKey } from '../../policy/services.js'
import type { WafOptions } from './build-rules.js'
import { type BuiltRules, RuleSet } from './engine/rule-set.js'
import { buildRulesBeside } from './rules-beside.js'

/** Rules of the folder that the option `waf.rules` names. */
export interface WafRules {
  /** Replaced when the folder has changed and its rules are compiled. */
  readonly current: RuleSet
}

/** Rules for the actions; undefined if the option is not set, `unchecked` where documents are only checked. */
export const wafRules = serviceKey<WafRules | 'unchecked' | undefined>('waf_rules', () => 'unchecked')

/** Log of the folder. */
interface FolderLog {
  info(fields: Readonly<Record<string, unknown>>, message: string): void
  error(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** Interval of the look for changes of the folder (ms). */
const LOOK = 2_000

/** Builds the rules of a folder. Rejects with `WAF_RULES_INVALID`. */
export type RulesBuilder = (folder: string, options: Pick<WafOptions, 'skip_unknown'>) => Promise<BuiltRules>

/** Rules that another thread has built, and this one makes closures of. */
export class GivenRules implements WafRules {
  #current: RuleSet
  #built: BuiltRules

  constructor(built: BuiltRules) {
    this.#built = built
    this.#current = atOnce(RuleSet.from(built))
  }

  get current(): RuleSet {
    return this.#current
  }

  get built(): BuiltRules {
    return this.#built
  }

  /** Replaces the rules. The new ones are prepared beside traffic and serve when all of them are. */
  async replace(built: BuiltRules): Promise<void> {
    this.#built = built
    const slices = Slices.besideTraffic()
    const rules = await slices.run(RuleSet.from(built))
    await slices.run(rules.planLike(this.#current))
    // Others may have followed meanwhile.
    if (this.#built === built) this.#current = rules
  }
}

/**
 * Rules of a folder that are read again when its files change. They are built in a thread of their own, once for the process; the old ones
 * serve until then, and stay active if the folder cannot be used.
 */
export class FolderRules implements WafRules {
  readonly #folder: string
  readonly #options: WafOptions
  readonly #log: FolderLog
  readonly #build: RulesBuilder
  readonly #timer: NodeJS.Timeout
  readonly #loaded: GivenRules
  readonly #followers: ((built: BuiltRules) => void)[] = []
  /** State of the files at the last look, and that of the current rules. */
  #seen: string
  #read: string
  #busy: Promise<void> = Promise.resolve()

  private constructor(
    folder: string,
    options: WafOptions,
    loaded: { readonly built: BuiltRules; readonly state: string },
    tools: { readonly log: FolderLog; readonly build: RulesBuilder }
  ) {
    this.#folder = folder
    this.#options = options
    this.#log = tools.log
    this.#build = tools.build
    this.#loaded = new GivenRules(loaded.built)
    this.#seen = loaded.state
    this.#read = loaded.state
    this.#timer = setInterval(() => {
      this.#busy = this.#busy.then(() => this.look())
    }, LOOK)
    this.#timer.unref()
  }

  /**
   * Reads the folder of the options; undefined without one. Rejects with `WAF_RULES_INVALID`. `build`: default in a thread of its own.
   */
  static async open(
    options: WafOptions,
    log: FolderLog,
    build: RulesBuilder = buildRulesBeside
  ): Promise<FolderRules | undefined> {
    const { rules: folder } = options
    if (folder === undefined) return undefined
    const state = await describeFiles(folder)
    return new FolderRules(folder, options, { built: await build(folder, options), state }, { log, build })
  }

  get current(): RuleSet {
    return this.#loaded.current
  }

  /** The rules as data, for other threads. */
  get built(): BuiltRules {
    return this.#loaded.built
  }

  /** Calls `changed` with all rules that replace the present ones. */
  follow(changed: (built: BuiltRules) => void): void {
    this.#followers.push(changed)
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
      const built = await this.#build(folder, this.#options)
      const { digest } = built
      if (digest === this.built.digest) return
      await this.#loaded.replace(built)
      for (const changed of this.#followers) changed(built)
      this.#log.info({ folder, rules: this.current.size, digest }, 'the rules of the folder are read again')
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
