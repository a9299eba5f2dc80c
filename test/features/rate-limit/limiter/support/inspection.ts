import { Directory } from '../../../../../src/features/rate-limit/limiter/directory.js'
import { HEADER, layoutOf, PAGE_RECORD, SEGMENT } from '../../../../../src/features/rate-limit/limiter/layout.js'
import { Memory, SIZE_CLASSES } from '../../../../../src/features/rate-limit/limiter/memory.js'
import { BLOCKS, KINDS, kindOf } from '../../../../../src/features/rate-limit/limiter/state.js'

const PER_PAGE = [170, 128, 85, 51, 28, 15, 8, 64, 34, 4]
const BLOCK_WORDS = 49
const BODY = 6
const ADDRESS = 0x7fff_ffff

type Must = (holds: boolean, what: () => string) => void

/** Looks through the whole memory of a table that nobody uses now; returns what is not as it should be. */
export function inspect(buffer: SharedArrayBuffer): string[] {
  const memory = new Memory(layoutOf(buffer.byteLength), { buffer })
  const { words, layout } = memory
  const directory = new Directory(memory)
  const wrong: string[] = []
  // The text is made where it is needed: this runs thousands of times over thousands of buckets.
  const must: Must = (holds, what) => {
    if (!holds && wrong.length < 5) wrong.push(what())
  }
  for (const name of ['structureLock', 'building', 'leaving', 'removing', 'rebuild', 'undone'] as const)
    must(words[HEADER[name]] === 0, () => `${name} is ${words[HEADER[name]]}`)

  const used = new Uint16Array(layout.endPage)
  const objects = new Uint8Array(words.length / 2)
  const has = (address: number) => {
    must(objects[address / 2] === 0, () => `object ${address} is held twice`)
    objects[address / 2] = 1
    used[address >>> 10]! += 1
  }
  const kinds = new Array<number>(KINDS).fill(0)
  let buckets = 0
  for (let segment = 0; segment < layout.segments; segment += 1) {
    const record = directory.record(segment)
    must(words[record + SEGMENT.lock] === 0, () => `segment ${segment} is locked`)
    for (let block = 0; block < words[record + SEGMENT.blocks]!; block += 1)
      has(words[layout.listBase + block * layout.segments + segment]!)
    let count = 0
    for (let index = 0; index < words[record + SEGMENT.size]!; index += 1) {
      const slot = directory.slot(segment, index)
      const state = words[slot + 2]!
      if (state === 0) continue
      count += 1
      kinds[kindOf(words, state)]! += 1
      has(state)
      must(directory.find(words[slot]!, words[slot + 1]!) === slot, () => `slot ${slot} is not found`)
      must(directory.findState(state, words[state + 1]!) === slot, () => `state ${state} does not lead to its slot`)
      for (let place = 0; kindOf(words, state) === BLOCKS && place < BLOCK_WORDS; place += 1)
        if (words[state + BODY + place] !== 0) has(words[state + BODY + place]! & ADDRESS)
    }
    must(
      count === words[record + SEGMENT.count],
      () => `segment ${segment} says ${words[record + SEGMENT.count]}, has ${count}`
    )
    buckets += count
  }
  must(
    buckets === words[HEADER.buckets],
    () => `${words[HEADER.buckets]} buckets are said to be there, there are ${buckets}`
  )
  kinds.forEach((count, kind) => {
    must(
      count === words[HEADER.kinds + kind],
      () => `kind ${kind}: ${words[HEADER.kinds + kind]} are said, there are ${count}`
    )
  })
  pages(memory, used, must)
  return wrong
}

/** Every page is held, or has room and is in the list of its size, or is free. */
function pages(memory: Memory, used: Uint16Array, must: Must): void {
  const { words, layout } = memory
  const record = (page: number) => layout.recordBase + page * PAGE_RECORD.words
  const listed = new Map<number, number>()
  for (let sizeClass = 0; sizeClass < SIZE_CLASSES; sizeClass += 1) {
    let previous = 0
    for (let page = words[HEADER.partial + sizeClass]!; page !== 0; page = words[record(page) + PAGE_RECORD.next]!) {
      must(!listed.has(page), () => `page ${page} is listed twice`)
      if (listed.has(page)) break
      listed.set(page, sizeClass)
      must(memory.classOfPage(page) === sizeClass, () => `page ${page} is in another size's list`)
      must(words[record(page) + PAGE_RECORD.previous] === previous, () => `page ${page} has another one before it`)
      previous = page
    }
  }
  const free = new Set<number>()
  for (
    let page = words[HEADER.freePage]!;
    page !== 0 && !free.has(page);
    page = words[record(page) + PAGE_RECORD.next]!
  )
    free.add(page)
  let inUse = 0
  for (let page = layout.firstPage; page < words[HEADER.freshPage]!; page += 1) {
    const here = used[page]!
    if (free.has(page)) {
      must(here === 0 && !listed.has(page), () => `page ${page} is free and in use`)
      continue
    }
    inUse += 1
    const sizeClass = memory.classOfPage(page)
    must(here > 0, () => `page ${page} is lost`)
    must(memory.usedOnPage(page) === here, () => `page ${page} says ${memory.usedOnPage(page)}, ${here} are held`)
    must(here < PER_PAGE[sizeClass]! === listed.has(page), () => `page ${page} with ${here} is listed wrongly`)
    let open = 0
    for (let at = words[record(page) + PAGE_RECORD.free]!; at !== 0 && open <= 170; at = words[at + 1]!) {
      must(words[at] === 0 && at >>> 10 === page, () => `object ${at} is free and is not`)
      open += 1
    }
    must(open === memory.touchedOnPage(page) - here, () => `page ${page} has ${open} free objects`)
  }
  must(
    inUse === words[HEADER.pagesInUse],
    () => `${words[HEADER.pagesInUse]} pages are said to be in use, ${inUse} are`
  )
}
