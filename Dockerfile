# Stage one builds a wheel and installs it, with the dependencies it was tested with, into a virtual
# environment; the final image gets that environment and has no means to build or install anything.
#
# BASE has no default: it is a Python 3.13 image by its digest, so that the same build gives the same image.
#   docker build --build-arg BASE=python:3.13-slim@sha256:DIGEST .
ARG BASE

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY src src
COPY examples examples
COPY deploy deploy
COPY charts charts
RUN pip install --no-cache-dir --require-hashes --requirement requirements/build.txt \
 && pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels . \
 && python -m venv --without-pip /opt/fairlead \
 && pip --python /opt/fairlead/bin/python install --no-cache-dir --require-hashes --requirement requirements/run.txt \
 && pip --python /opt/fairlead/bin/python install --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM ${BASE}
RUN pip uninstall --yes pip
COPY --from=build /opt/fairlead /opt/fairlead
ENV PATH=/opt/fairlead/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The root file system may be read-only: nothing is written unless a recording is asked for.
USER 65532:65532
ENTRYPOINT ["fairlead"]
CMD ["scheduler"]
