import { basename, dirname, isAbsolute, join } from 'node:path'
import { CodedError, codeOf } from '../../../lib/errors.js'
import { importErrors } from '../errors.js'
import type { ImportSources, SourcePosition } from '../model.js'
import { type Directive, parseNginx } from './syntax.js'

const MAX_INCLUDED_FILES = 1000
const MAX_INCLUDE_DEPTH = 20

/** Reads files with everything that they include, in the place of each `include`. */
export class IncludeReader {
  readonly #sources: ImportSources
  /** Folder that relative paths of all files begin at: that of the first file, as nginx does. */
  readonly #folder: string
  #files = 0

  constructor(sources: ImportSources, folder: string) {
    this.#sources = sources
    this.#folder = folder
  }

  async read(file: string): Promise<Directive[]> {
    return await this.#expand(parseNginx(this.#filled(await this.#sources.readFile(file)), file), 0)
  }

  /** `${NAME}` in upper case is a variable of the environment, as envsubst of container images fills it in. */
  #filled(text: string): string {
    return text.replace(
      /\$\{([A-Z_][A-Z0-9_]*)\}/g,
      (written, name: string) => this.#sources.environment[name] ?? written
    )
  }

  async #expand(directives: readonly Directive[], depth: number): Promise<Directive[]> {
    const expanded: Directive[] = []
    for (const directive of directives) {
      const [pattern] = directive.args
      if (directive.name === 'include' && pattern !== undefined && directive.block === undefined) {
        expanded.push(directive, ...(await this.#included(pattern, directive.at, depth)))
      } else if (directive.block === undefined) expanded.push(directive)
      else expanded.push({ ...directive, block: await this.#expand(directive.block, depth) })
    }
    return expanded
  }

  async #included(pattern: string, at: SourcePosition, depth: number): Promise<Directive[]> {
    const place = `${at.file}:${at.line}:${at.column}`
    if (depth === MAX_INCLUDE_DEPTH) {
      throw new CodedError(importErrors.IMPORT_INCLUDE, `${place}: files include each other ${MAX_INCLUDE_DEPTH} deep`)
    }
    const directives: Directive[] = []
    for (const file of await this.#matching(isAbsolute(pattern) ? pattern : join(this.#folder, pattern), place)) {
      if (++this.#files > MAX_INCLUDED_FILES) {
        throw new CodedError(
          importErrors.IMPORT_INCLUDE,
          `${place}: more than ${MAX_INCLUDED_FILES} files are included`
        )
      }
      let text: string
      try {
        text = await this.#sources.readFile(file)
      } catch (error) {
        if (codeOf(error) === undefined) throw error
        // The types of file names are those of every installation of nginx, and nothing follows from them.
        if (basename(file) === 'mime.types') continue
        throw new CodedError(importErrors.IMPORT_INCLUDE, `${place}: ${file} cannot be read`, { cause: error })
      }
      // A part of the name of types says nothing about requests and has hundreds of lines.
      if (basename(file) === 'mime.types') continue
      directives.push(...(await this.#expand(parseNginx(this.#filled(text), file), depth + 1)))
    }
    return directives
  }

  /** The files of a pattern in the order of their names; stars stand in any part of the path. None is no error, as for nginx. */
  async #matching(pattern: string, place: string): Promise<string[]> {
    if (!/[*?[]/.test(pattern)) return [pattern]
    let folders = ['']
    const parts = pattern.split('/')
    for (const [index, part] of parts.entries()) {
      const last = index === parts.length - 1
      const next: string[] = []
      for (const folder of folders) {
        if (!/[*?[]/.test(part)) next.push(index === 0 ? part : `${folder}/${part}`)
        else {
          const names = await this.#names(index === 0 ? '.' : `${folder}/`)
          const regex = globRegex(part, place)
          next.push(
            ...names.filter((name) => regex.test(name)).map((name) => (index === 0 ? name : `${folder}/${name}`))
          )
        }
      }
      folders = last ? next.sort() : next
    }
    return folders
  }

  async #names(folder: string): Promise<readonly string[]> {
    try {
      return await this.#sources.listFolder(folder)
    } catch (error) {
      if (codeOf(error) === undefined) throw error
      return []
    }
  }
}

function globRegex(part: string, place: string): RegExp {
  const source = part
    .replace(/[.+^${}()|\\]/g, '\\$&')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
  try {
    return new RegExp(`^(?!\\.)${source.replaceAll('[!', '[^')}$`)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new CodedError(importErrors.IMPORT_INCLUDE, `${place}: "${part}" is no pattern of file names`)
  }
}

/** Folder that the paths of `file` begin at. */
export const folderOf = (file: string) => dirname(file)
