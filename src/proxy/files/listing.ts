import { promises } from 'node:fs'
import { isHidden } from './file-path.js'
import type { Folder } from './folder.js'

/** Maximum number of names in a list. */
const MOST_SHOWN = 1_000
/** Maximum number of names read from a folder. */
const MOST_READ = 10_000
/** Number of files checked in parallel. */
const AT_ONCE = 32

/** Content-Security-Policy of lists: only the page's own style is allowed. */
export const LISTING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}table{border-collapse:collapse;width:100%}' +
  'td,th{padding:.2rem .6rem;text-align:left}td+td{color:#666;white-space:nowrap}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}'

interface Row {
  readonly name: string
  /** Facts of a file; undefined for a folder. */
  readonly file?: { readonly size: number; readonly modified: bigint }
}

/** Returns an HTML page with the files and folders that clients may request; `path` is the folder's. Rejects with the system's error. */
export async function listFolder(folder: Folder, path: string): Promise<string> {
  const names: string[] = []
  let more = false
  for await (const { name } of await promises.opendir(`${folder.root}/${path}`)) {
    more = names.length === MOST_READ
    if (more) break
    if (!isHidden(name)) names.push(name)
  }
  names.sort()
  const rows: Row[] = []
  for (let at = 0; at < names.length && rows.length < MOST_SHOWN; at += AT_ONCE) {
    const part = names.slice(at, at + AT_ONCE)
    const found = await Promise.all(part.map((name) => folder.look(path === '' ? name : `${path}/${name}`)))
    for (const [index, one] of found.entries()) {
      if (one.kind === 'folder') rows.push({ name: part[index] as string })
      else if (one.kind === 'file') rows.push({ name: part[index] as string, file: one })
    }
    more ||= rows.length >= MOST_SHOWN && at + AT_ONCE < names.length
  }
  return page(`/${path}`, rows, more)
}

function page(path: string, rows: readonly Row[], more: boolean): string {
  const title = `Files in ${escaped(path)}`
  const sorted = [...rows].sort((a, b) => Number(a.file !== undefined) - Number(b.file !== undefined))
  const lines = sorted.map(({ name, file }) => {
    const end = file === undefined ? '/' : ''
    const about = file === undefined ? ['', ''] : [sizeText(file.size), timeText(file.modified)]
    // A browser would parse a name with a colon as a scheme.
    return `<tr><td><a href="./${encodeURIComponent(name)}${end}">${escaped(name)}${end}</a></td><td>${about[0]}</td><td>${about[1]}</td></tr>`
  })
  const up = path === '/' ? '' : '<p><a href="../">Up</a></p>'
  const rest = more ? '<p>There are more files than this page shows.</p>' : ''
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>` +
    `<style>${STYLE}</style></head><body><h1>${title}</h1>${up}<table><thead><tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr></thead>` +
    `<tbody>${lines.join('')}</tbody></table>${rest}</body></html>`
  )
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ENTITIES[sign] as string)
}

function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let [size, unit] = [bytes, 0]
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024
    unit++
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`
}

function timeText(nanoseconds: bigint): string {
  return new Date(Number(nanoseconds / 1_000_000n)).toISOString().slice(0, 16).replace('T', ' ')
}
