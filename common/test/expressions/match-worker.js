// Evaluates an expression where it can be ended whatever it does (`evaluate.test.js`).
import { parentPort, workerData } from 'node:worker_threads'
import { compile, evaluate } from '../../src/expressions/evaluate.js'

const { expression, payload } = workerData
const place = { topic: 't', sensor: 's', metric: undefined }
parentPort?.postMessage(await evaluate(compile(expression), 'json', Buffer.from(payload), place))
