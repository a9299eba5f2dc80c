/**
 * The protocol of locks, journal and repair as steps of threads that any other may come between, and that any thread may end before.
 *
 * Two threads decide: one about a bucket that there is, one about a new one, which changes two shared numbers (`pages` and `held`, which must
 * be equal whenever nobody is inside) in a step of the journal. Two others repair whoever has ended. A lock is a word with the number of its
 * owner; each step below reads or writes one word.
 */
export type Step =
  | 'acquire segment'
  | 'read count'
  | 'acquire structure'
  | 'note'
  | 'raise'
  | 'store'
  | 'commit'
  | 'count'
  | 'release structure'
  | 'release segment'
  | 'answer'
  | 'take over structure'
  | 'roll back'
  | 'lower'
  | 'take over segment'

/** A decision about a bucket that there is. */
export const EXISTING: readonly Step[] = ['acquire segment', 'read count', 'count', 'release segment', 'answer']
/** A decision that makes a bucket: the step of the journal writes two words. */
export const MAKING: readonly Step[] = [
  'acquire segment',
  'acquire structure',
  'note',
  'raise',
  'store',
  'note',
  'raise',
  'store',
  'commit',
  'read count',
  'count',
  'release structure',
  'release segment',
  'answer'
]
/** `roll back` and `lower` go on as long as the journal has entries. */
export const REPAIR: readonly Step[] = [
  'take over structure',
  'roll back',
  'lower',
  'release structure',
  'take over segment',
  'release segment'
]

/** What is done otherwise than it must be, to see that it is found. */
export interface Wrong {
  /** Steps of the decision that makes a bucket. */
  readonly making?: readonly Step[]
  readonly repair?: readonly Step[]
  /** A lock is taken over whoever has it. */
  readonly seizes?: boolean
}

/** Numbers of threads: two that decide about the same segment, two that repair. */
const DECIDING = [1, 2] as const
const REPAIRING = [3, 4] as const
const THREADS = 5

/** One state. Threads by number; `at`: next step; `ended`: it ended there; `local`: what it has read. */
interface State {
  segment: number
  structure: number
  pages: number
  held: number
  entries: number
  /** What the two entries hold: word (0: pages, 1: held) and value. */
  noted: number[]
  count: number
  answered: number
  at: number[]
  ended: number[]
  local: number[]
  /** Whom a thread repairs; 0: nobody. */
  repairs: number[]
  /** Ended threads that have been repaired. */
  repaired: number[]
  kills: number
}

const FIRST: State = {
  ...{ segment: 0, structure: 0, pages: 0, held: 0, entries: 0, noted: [0, 0], count: 0, answered: 0 },
  ...{ at: zeros(), ended: zeros(), local: zeros(), repairs: zeros(), repaired: zeros(), kills: 0 }
}

/** What exploring all states has come to. */
export interface Explored {
  readonly states: number
  /** What is wrong in some state; empty: nothing in any. */
  readonly wrong: readonly string[]
}

/** Goes through every state that any order of steps leads to, with at most `kills` ends of threads. */
export function explore(kills: number, wrong: Wrong = {}): Explored {
  const programs = [[], EXISTING, wrong.making ?? MAKING, wrong.repair ?? REPAIR, wrong.repair ?? REPAIR] as const
  const seen = new Set<string>([keyOf(FIRST)])
  const found = new Set<string>()
  const left = [FIRST]
  for (let state = left.pop(); state !== undefined; state = left.pop()) {
    for (const text of violations(state)) found.add(text)
    // One violation is enough to see that something wrong is found.
    if (found.size > 0) break
    const nexts = [...successors(state, programs, { kills, seizes: wrong.seizes === true })]
    if (nexts.length === 0) for (const text of unfinished(state, programs)) found.add(text)
    for (const next of nexts) {
      const key = keyOf(next)
      if (seen.has(key)) continue
      seen.add(key)
      left.push(next)
    }
  }
  return { states: seen.size, wrong: [...found] }
}

function* successors(
  state: State,
  programs: readonly (readonly Step[])[],
  { kills, seizes }: { readonly kills: number; readonly seizes: boolean }
): Generator<State> {
  for (let thread = 1; thread < THREADS; thread++) {
    if (state.ended[thread] === 1) continue
    const program = programs[thread] as readonly Step[]
    const isRepairing = thread >= REPAIRING[0]
    if (isRepairing && state.repairs[thread] === 0) {
      // Somebody has ended who is not repaired: both may begin with it.
      for (let other = 1; other < THREADS; other++)
        if (state.ended[other] === 1 && state.repaired[other] === 0)
          yield changed(state, (next) => {
            next.repairs[thread] = other
            next.at[thread] = 0
          })
      continue
    }
    const step = program[state.at[thread] as number]
    if (step === undefined) {
      if (isRepairing)
        yield changed(state, (next) => {
          next.repaired[next.repairs[thread] as number] = 1
          next.repairs[thread] = 0
        })
      continue
    }
    const next = taken(state, thread, step, seizes)
    if (next !== undefined) yield next
    // It may end before any step but the first, and while it repairs before any.
    if (state.kills < kills && (isRepairing || (state.at[thread] as number) > 0))
      yield changed(state, (one) => {
        one.ended[thread] = 1
        one.kills++
      })
  }
}

/** The state after the step; undefined: the thread has to wait. */
function taken(state: State, thread: number, step: Step, seizes: boolean): State | undefined {
  const dead = state.repairs[thread] as number
  const go = (change: (next: State) => void, steps = 1) =>
    changed(state, (next) => {
      change(next)
      next.at[thread] = (next.at[thread] as number) + steps
    })
  switch (step) {
    case 'acquire segment':
      return state.segment === 0
        ? go((next) => {
            next.segment = thread
          })
        : undefined
    case 'acquire structure':
      return state.structure === 0
        ? go((next) => {
            next.structure = thread
          })
        : undefined
    case 'read count':
      return go((next) => {
        next.local[thread] = next.count
      })
    case 'count':
      return go((next) => {
        next.count = (next.local[thread] as number) + 1
      })
    case 'note':
      // The first entry is of `pages`, the second one of `held`.
      return go((next) => {
        next.noted[next.entries] = next.entries === 0 ? next.pages : next.held
      })
    case 'raise':
      return go((next) => void next.entries++)
    case 'store':
      return go((next) => {
        if (next.entries === 1) next.pages++
        else next.held++
      })
    case 'commit':
      return go((next) => {
        next.entries = 0
      })
    case 'release structure':
      return go((next) => {
        next.structure = 0
      })
    case 'release segment':
      return go((next) => {
        next.segment = 0
      })
    case 'answer':
      return go((next) => void next.answered++)
    case 'take over structure':
      // Whoever finds it to be another's goes on behind its release.
      if (state.structure !== dead && !seizes) return go(() => undefined, 4)
      return go((next) => {
        next.structure = thread
      })
    case 'roll back':
      if (state.entries === 0) return go(() => undefined, 2)
      return go((next) => {
        if (next.entries === 2) next.held = next.noted[1] as number
        else next.pages = next.noted[0] as number
      })
    case 'lower':
      return go((next) => {
        next.entries = Math.max(0, next.entries - 1)
      }, -1)
    case 'take over segment':
      if (state.segment !== dead && !seizes) return go(() => undefined, 2)
      return go((next) => {
        next.segment = thread
      })
  }
}

function* violations(state: State): Generator<string> {
  if (state.structure === 0 && state.entries !== 0) yield 'nobody is inside, and a step is neither done nor taken back'
  if (state.structure === 0 && state.pages !== state.held) yield 'nobody is inside, and half of a step is done'
  if (state.count < state.answered) yield 'what was answered is not counted'
}

/** Nothing can happen any more. */
function* unfinished(state: State, programs: readonly (readonly Step[])[]): Generator<string> {
  const alive = [...REPAIRING].some((thread) => state.ended[thread] === 0)
  if (!alive) return
  if (state.segment !== 0 || state.structure !== 0) yield 'a lock stays with nobody to free it'
  for (const thread of DECIDING)
    if (state.ended[thread] === 0 && (state.at[thread] as number) < (programs[thread]?.length ?? 0))
      yield 'a thread waits for ever'
}

function changed(state: State, change: (next: State) => void): State {
  const next = {
    ...state,
    noted: [...state.noted],
    at: [...state.at],
    ended: [...state.ended],
    local: [...state.local],
    repairs: [...state.repairs],
    repaired: [...state.repaired]
  }
  change(next)
  return next
}

function keyOf(state: State): string {
  const { segment, structure, pages, held, entries, noted, count, answered, at, ended, local, repairs, repaired } =
    state
  return `${segment}${structure}${pages}${held}${entries}${noted.join('')}${count}${answered} ${at} ${ended.join('')}${local.join('')}${repairs.join('')}${repaired.join('')}`
}

function zeros(): number[] {
  return new Array(THREADS).fill(0)
}
