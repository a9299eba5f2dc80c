import { parse as parseToml, TomlError } from 'smol-toml'
import { syntaxError } from '../errors.js'
import { type Fields, fieldsOf } from '../values.js'
import { type PlacedDocument, readYaml } from '../yaml-document.js'

/** Reads YAML or, for a file `.toml`, TOML. Throws IMPORT_SYNTAX. */
export function readDocument(text: string, file: string): PlacedDocument {
  return file.endsWith('.toml') ? readToml(text, file) : readYaml(text, file)
}

function readToml(text: string, file: string): PlacedDocument {
  let data: Fields
  try {
    data = fieldsOf(parseToml(text, { integersAsBigInt: 'asNeeded' }))
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const problem = (error.message.split('\n')[0] as string).replace(/^Invalid TOML document: /, '')
    throw syntaxError(problem, { file, line: error.line, column: error.column })
  }
  const lines = text.split('\n').map((line) => line.trim())
  return {
    data,
    /** The line of the table, or of the key in it; tables of TOML say their whole path. */
    positionOf(path) {
      const plain = (words: string) => words.replace(/["'\s]/g, '')
      const tables = lines.map((line) => (line.startsWith('[') ? plain(line.replace(/^\[+|\]+.*$/g, '')) : ''))
      const wanted = path.join('.')
      const table = tables.findIndex((name) => name === wanted || name.startsWith(`${wanted}.`))
      if (table !== -1) return { file, line: table + 1, column: 1 }
      const parent = tables.indexOf(path.slice(0, -1).join('.'))
      const key = lines.findIndex(
        (line, index) => index > parent && plain(line.split('=')[0] as string) === String(path.at(-1))
      )
      return { file, line: Math.max(0, key === -1 ? parent : key) + 1, column: 1 }
    }
  }
}
